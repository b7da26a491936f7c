#!/bin/sh
# Prints all power sensors of the node's management controller.
ipmitool sdr | grep -i watts
