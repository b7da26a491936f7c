#!/bin/sh
# Prints the node's power by its management controller. 0 Watts: it does not measure the power.
ipmitool dcmi power reading | grep -i instantaneous | grep -v ' 0 Watts'
