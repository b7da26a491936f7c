// A libnvidia-ml.so.1 without GPUs. FAKE_NVML holds one letter a device:
//   g  answers everything      p  does not know power, energy and clock      l  is lost
// An empty FAKE_NVML: the driver is not loaded.
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
enum { OK = 0, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };

static const char *devices(void) { return getenv("FAKE_NVML") ? getenv("FAKE_NVML") : ""; }
static long number(void *device) { return (char *)device - devices(); }
static int power_known(void *device) { return *(char *)device == 'p' ? NOT_SUPPORTED : OK; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return *devices() ? OK : DRIVER_NOT_LOADED; }
const char *nvmlErrorString(int code) { return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Fake error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = strlen(devices()); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(devices() + index);
    return devices()[index] == 'l' ? GPU_IS_LOST : OK;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c) { (void)sensor; *c = 31 + number(device); return OK; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { *mw = 57250 + 1000 * number(device); return power_known(device); }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj) { *mj = 3600000; return power_known(device); }
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) { *mhz = type == 1 ? 1410 : 0; return power_known(device); }
int nvmlDeviceGetUtilizationRates(void *device, Utilization *u) { u->gpu = 10 * number(device); u->memory = 0; return OK; }
int nvmlDeviceGetMemoryInfo(void *device, Memory *m) {
    (void)device;
    m->total = 40536ULL << 20; m->used = 15ULL << 20; m->free = m->total - m->used;
    return OK;
}
