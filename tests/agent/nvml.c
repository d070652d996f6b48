/* A stand-in for libnvidia-ml.so.1: answers from the file that KAI_STAND_IN names, read anew at
 * every call, so that a test can change what happens while an agent runs.
 *
 *   driver 550.54.15                     version; without any line: the driver is not loaded
 *   error 999                            every call but nvmlInit fails with this code
 *   init 9                               nvmlInit fails with this code
 *   device 0 GPU-a 81559 40000 87 512000 00000000:1B:00.0 mig lost
 *          index uuid total used(MiB) util(%) power(mW) bus flags(0/1)
 *   name 0 NVIDIA H100 80GB HBM3
 *   rows 0 pending failed                remapped rows; else not supported
 *   ecc 0 3                              uncorrected errors
 *   proc 0 123 2000 50 -1                index pid MiB util(%; -1: not told) instance
 *   part 0 1 MIG-x 9856 100 1g.10gb      index instance uuid total used profile
 *   link 0 1                             NVLink between two
 *   xid 0 79                             an event; each is told once
 *   odd nvmlDeviceGetPowerUsage 999      this call fails with this code
 *   slow 5                               seconds that a look at processes takes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OK 0
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT 7
#define NOT_LOADED 9
#define TIMEOUT 10
#define LOST 15
#define MOST 32

typedef struct { int device, instance; char uuid[96], profile[32]; long total, used; } Part;
typedef struct { int device, pid, instance; long mib; int util; } Proc;
typedef struct {
  int there, index, util, power, mig, lost;
  char uuid[96], bus[32], name[96];
  long total, used;
  int rows, pending, failed, ecc;
} Device;

static Device devices[MOST];
static Part parts[MOST];
static Proc procs[MOST];
static int links[MOST][2], xids[MOST][2];
static int ndevices, nparts, nprocs, nlinks, nxids, told, failing, init, slow;
static char driver[64], odd_call[64];
static int odd_code;

static void load(void) {
  char line[512];
  const char *path = getenv("KAI_STAND_IN");
  FILE *f = path ? fopen(path, "r") : NULL;
  memset(devices, 0, sizeof devices);
  ndevices = nparts = nprocs = nlinks = nxids = failing = init = slow = odd_code = 0;
  driver[0] = odd_call[0] = 0;
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    Device d; Part p; Proc q; int a, b, c;
    memset(&d, 0, sizeof d); memset(&p, 0, sizeof p); memset(&q, 0, sizeof q);
    sscanf(line, "driver %63s", driver);
    sscanf(line, "error %d", &failing);
    sscanf(line, "init %d", &init);
    sscanf(line, "slow %d", &slow);
    sscanf(line, "odd %63s %d", odd_call, &odd_code);
    if (sscanf(line, "device %d %95s %ld %ld %d %d %31s %d %d", &d.index, d.uuid, &d.total, &d.used,
               &d.util, &d.power, d.bus, &d.mig, &d.lost) == 9 && d.index < MOST) {
      d.there = 1; devices[d.index] = d;
      if (d.index >= ndevices) ndevices = d.index + 1;
    }
    if (sscanf(line, "name %d %95[^\n]", &a, p.uuid) == 2) strcpy(devices[a].name, p.uuid);
    if (sscanf(line, "rows %d %d %d", &a, &b, &c) == 3) {
      devices[a].rows = 1; devices[a].pending = b; devices[a].failed = c;
    }
    if (sscanf(line, "ecc %d %d", &a, &b) == 2) devices[a].ecc = b;
    if (sscanf(line, "proc %d %d %ld %d %d", &q.device, &q.pid, &q.mib, &q.util, &q.instance) == 5)
      procs[nprocs++] = q;
    if (sscanf(line, "part %d %d %95s %ld %ld %31s", &p.device, &p.instance, p.uuid, &p.total,
               &p.used, p.profile) == 6)
      parts[nparts++] = p;
    if (sscanf(line, "link %d %d", &a, &b) == 2) { links[nlinks][0] = a; links[nlinks++][1] = b; }
    if (sscanf(line, "xid %d %d", &a, &b) == 2) { xids[nxids][0] = a; xids[nxids++][1] = b; }
  }
  fclose(f);
}

/* What every call begins with: the file, and whether it fails. */
static int enter(const char *name) {
  load();
  if (failing) return failing;
  if (!strcmp(name, odd_call)) return odd_code;
  return driver[0] ? OK : NOT_LOADED;
}
#define ENTER int code = enter(__func__); if (code) return code
static int is_part(void *handle) { return (char *)handle >= (char *)parts && (char *)handle < (char *)(parts + MOST); }
#define DEVICE Device *d = handle; ENTER; if (!is_part(handle) && d->lost) return LOST
static unsigned long long now_us(void) {
  struct timespec t; clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000ULL + t.tv_nsec / 1000;
}

int nvmlInitWithFlags(unsigned flags) { load(); told = 0; return init ? init : driver[0] ? OK : NOT_LOADED; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error of the stand-in"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { ENTER; snprintf(out, n, "%s", driver); return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { ENTER; *n = ndevices; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) {
  ENTER; *handle = &devices[i]; return devices[i].lost ? LOST : OK;
}
int nvmlDeviceGetUUID(void *handle, char *out, unsigned n) {
  DEVICE; snprintf(out, n, "%s", is_part(handle) ? ((Part *)handle)->uuid : d->uuid); return OK;
}
int nvmlDeviceGetName(void *handle, char *out, unsigned n) {
  DEVICE;
  if (is_part(handle)) snprintf(out, n, "NVIDIA H100 80GB HBM3 MIG %s", ((Part *)handle)->profile);
  else snprintf(out, n, "%s", d->name);
  return OK;
}
typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(void *handle, Memory *m) {
  DEVICE;
  long total = is_part(handle) ? ((Part *)handle)->total : d->total;
  long used = is_part(handle) ? ((Part *)handle)->used : d->used;
  m->total = total << 20; m->used = used << 20; m->free = m->total - m->used;
  return OK;
}
typedef struct {
  char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32];
} Pci;
int nvmlDeviceGetPciInfo_v3(void *handle, Pci *p) { DEVICE; snprintf(p->bus_id, 32, "%s", d->bus); return OK; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) { DEVICE; *mw = d->power; return OK; }
typedef struct { unsigned long long at; union { double d; unsigned u; } value; } Sample;
int nvmlDeviceGetSamples(void *handle, int type, unsigned long long since, int *kind, unsigned *n, Sample *s) {
  DEVICE;
  if (d->mig) return NOT_SUPPORTED;
  *n = 1; *kind = 1;
  if (s) { s[0].at = now_us(); s[0].value.u = d->util; }
  return OK;
}
typedef struct { unsigned gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(void *handle, Rates *r) {
  DEVICE;
  if (d->mig) return NOT_SUPPORTED;
  r->gpu = d->util; return OK;
}
typedef struct { unsigned pid; unsigned long long mem; unsigned gi, ci; } Info;
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *n, Info *out) {
  DEVICE; unsigned found = 0;
  for (int i = 0; i < nprocs; i++) {
    if (procs[i].device != d->index) continue;
    if (out) {
      Info one = {procs[i].pid, procs[i].mib < 0 ? ~0ULL : (unsigned long long)procs[i].mib << 20,
                  procs[i].instance, procs[i].instance};
      out[found] = one;
    }
    found++;
  }
  if (slow) sleep(slow);
  int enough = out != NULL || !found;
  *n = found;
  return enough ? OK : INSUFFICIENT;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *n, Info *out) { DEVICE; *n = 0; return OK; }
typedef struct { unsigned pid; unsigned long long at; unsigned sm, mem, enc, dec; } Util;
int nvmlDeviceGetProcessUtilization(void *handle, Util *out, unsigned *n, unsigned long long since) {
  DEVICE; unsigned found = 0;
  if (d->mig) return NOT_SUPPORTED;
  for (int i = 0; i < nprocs; i++) {
    if (procs[i].device != d->index) continue;
    if (procs[i].util < 0) return NOT_SUPPORTED;
    if (procs[i].util == 0) continue;
    if (out) { Util one = {procs[i].pid, now_us(), procs[i].util, 0, 0, 0}; out[found] = one; }
    found++;
  }
  if (!found) return NOT_FOUND;
  *n = found;
  return out ? OK : INSUFFICIENT;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *next) { DEVICE; *now = *next = d->mig; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *n) { DEVICE; *n = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **part) {
  DEVICE; unsigned seen = 0;
  for (int i = 0; i < nparts; i++)
    if (parts[i].device == d->index && seen++ == index) { *part = &parts[i]; return OK; }
  return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id) { ENTER; *id = ((Part *)handle)->instance; return OK; }
int nvmlDeviceGetP2PStatus(void *one, void *other, int what, int *status) {
  ENTER; int a = ((Device *)one)->index, b = ((Device *)other)->index;
  *status = 1;
  for (int i = 0; i < nlinks; i++)
    if ((links[i][0] == a && links[i][1] == b) || (links[i][0] == b && links[i][1] == a)) *status = 0;
  return OK;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
  DEVICE;
  if (!d->rows) return NOT_SUPPORTED;
  *c = *u = 0; *pending = d->pending; *failed = d->failed; return OK;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *n) {
  DEVICE; *n = d->ecc; return OK;
}
int nvmlEventSetCreate(void **set) { ENTER; *set = &told; return OK; }
int nvmlEventSetFree(void *set) { return OK; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long kinds, void *set) { DEVICE; (void)d; return OK; }
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
int nvmlEventSetWait_v2(void *set, Event *e, unsigned ms) {
  ENTER;
  for (int i = 0; i < ndevices; i++) if (devices[i].lost) return LOST;
  if (told >= nxids) return TIMEOUT;
  e->device = &devices[xids[told][0]]; e->type = 8; e->data = xids[told][1]; told++;
  return OK;
}
