/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests alone: the calls that the console's agent makes, with the
 * signatures of nvml.h, answered from a scenario file (environment variable NVML_STANDIN; grammar in build.py).
 * The file is looked at before every call, so a test changes the "hardware" under a running sampler. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    FUNCTION_NOT_FOUND = 13,
    GPU_IS_LOST = 15,
};

#define MAX_GPUS 16
#define MAX_MIG 8
#define MAX_PROCS 64
#define MAX_RULES 32
#define HANG (-1)
#define EXPORT __attribute__((visibility("default")))

typedef struct {
    unsigned pid;
    unsigned long long bytes;
    char list[12]; /* compute, graphics or mps */
    int mig;       /* instance, -1 for the whole GPU */
} Proc;

typedef struct {
    char field[24]; /* "all" for every call */
    int code;       /* what the call returns, or HANG */
} Rule;

typedef struct {
    char name[96], uuid[96];
    unsigned long long used, reserved, total, throttle, ecc[2];
    unsigned util[2], clock[3], pcie[2], temperature, milliwatts, limit;
    int mig_count;
    Proc procs[MAX_PROCS];
    int proc_count;
    Rule rules[MAX_RULES];
    int rule_count;
} Gpu;

typedef struct {
    unsigned count;
    int init, cuda;
    char driver[80], nvml[80];
    char missing[MAX_RULES][64];
    int missing_count;
    Gpu gpus[MAX_GPUS];
} Scenario;

typedef struct {
    int gpu, mig;
} Handle;

/* Of nvml.h. */
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory_v2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version; int sensor; int temperature; } Temperature_v1;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } ProcessInfo;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Scenario now;
static struct stat seen;
static Handle handles[MAX_GPUS][MAX_MIG + 1];

static void defaults(Scenario *s) {
    memset(s, 0, sizeof *s);
    s->cuda = 12040;
    strcpy(s->driver, "550.54.15");
    strcpy(s->nvml, "12.550.54.15");
    for (int i = 0; i < MAX_GPUS; i++) {
        Gpu *g = &s->gpus[i];
        snprintf(g->name, sizeof g->name, "NVML stand-in GPU");
        snprintf(g->uuid, sizeof g->uuid, "GPU-stand-in-%d", i);
        g->total = 96ULL << 30;
        g->reserved = 512ULL << 20;
        g->temperature = 40 + i;
        g->milliwatts = 100000 + 1000 * i;
        g->limit = 600000;
        g->clock[1] = 2400;
        g->clock[2] = 12500;
    }
}

static void add_rule(Gpu *g, const char *field, int code) {
    if (g->rule_count < MAX_RULES) {
        Rule *rule = &g->rules[g->rule_count++];
        snprintf(rule->field, sizeof rule->field, "%s", field);
        rule->code = code;
    }
}

static void add_proc(Gpu *g, const char *rest) {
    char bytes[32] = "", list[12] = "compute";
    unsigned pid;
    int mig = -1;
    if (g->proc_count < MAX_PROCS && sscanf(rest, "%u %31s %11s %d", &pid, bytes, list, &mig) >= 2) {
        Proc *proc = &g->procs[g->proc_count++];
        proc->pid = pid;
        proc->bytes = strcmp(bytes, "NA") ? strtoull(bytes, NULL, 10) : ~0ULL;
        proc->mig = mig;
        snprintf(proc->list, sizeof proc->list, "%s", list);
    }
}

static void gpu_line(Gpu *g, const char *word, const char *rest) {
    char field[24];
    int code;
    if (!strcmp(word, "lost")) add_rule(g, "all", GPU_IS_LOST);
    else if (!strcmp(word, "hang")) add_rule(g, "all", HANG);
    else if (!strcmp(word, "na") && sscanf(rest, "%23s", field) == 1) add_rule(g, field, NOT_SUPPORTED);
    else if (!strcmp(word, "fail") && sscanf(rest, "%23s %d", field, &code) == 2) add_rule(g, field, code);
    else if (!strcmp(word, "proc")) add_proc(g, rest);
    else if (!strcmp(word, "mem")) sscanf(rest, "%llu %llu", &g->used, &g->total);
    else if (!strcmp(word, "util")) sscanf(rest, "%u %u", &g->util[0], &g->util[1]);
    else if (!strcmp(word, "temp")) sscanf(rest, "%u", &g->temperature);
    else if (!strcmp(word, "power")) sscanf(rest, "%u %u", &g->milliwatts, &g->limit);
    else if (!strcmp(word, "clocks")) sscanf(rest, "%u %u", &g->clock[1], &g->clock[2]);
    else if (!strcmp(word, "throttle")) sscanf(rest, "%llx", &g->throttle);
    else if (!strcmp(word, "ecc")) sscanf(rest, "%llu %llu", &g->ecc[0], &g->ecc[1]);
    else if (!strcmp(word, "pcie")) sscanf(rest, "%u %u", &g->pcie[0], &g->pcie[1]);
    else if (!strcmp(word, "mig")) sscanf(rest, "%d", &g->mig_count);
    else if (!strcmp(word, "name")) snprintf(g->name, sizeof g->name, "%s", rest);
    else fprintf(stderr, "nvml stand-in: unknown word '%s'\n", word);
}

static void read_line(Scenario *s, char *line) {
    char word[24] = "", what[24] = "", text[64];
    unsigned index;
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "gpu %u %23s %n", &index, what, &at) >= 2 && index < MAX_GPUS) {
        gpu_line(&s->gpus[index], what, at ? line + at : "");
    } else if (sscanf(line, "%23s %63s", word, text) == 2) {
        if (!strcmp(word, "count")) s->count = strtoul(text, NULL, 10);
        else if (!strcmp(word, "cuda")) s->cuda = atoi(text);
        else if (!strcmp(word, "driver")) snprintf(s->driver, sizeof s->driver, "%s", text);
        else if (!strcmp(word, "nvml")) snprintf(s->nvml, sizeof s->nvml, "%s", text);
        else if (!strcmp(word, "init")) s->init = strcmp(text, "hang") ? atoi(text) : HANG;
        else if (!strcmp(word, "missing") && s->missing_count < MAX_RULES)
            snprintf(s->missing[s->missing_count++], sizeof s->missing[0], "%s", text);
        else fprintf(stderr, "nvml stand-in: unknown word '%s'\n", word);
    }
}

/* Read the scenario again when its file was replaced; to be called with the lock held. */
static void refresh(void) {
    const char *path = getenv("NVML_STANDIN");
    struct stat st;
    char line[256];
    FILE *file;
    if (!path || stat(path, &st) != 0) return;
    if (st.st_ino == seen.st_ino && st.st_size == seen.st_size && st.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    if (!(file = fopen(path, "r"))) return;
    defaults(&now);
    while (fgets(line, sizeof line, file)) read_line(&now, line);
    fclose(file);
    seen = st;
}

static int missing(const char *function) {
    for (int i = 0; i < now.missing_count; i++)
        if (!strcmp(now.missing[i], function)) return 1;
    return 0;
}

static int ruling(const Gpu *g, const char *field) {
    for (int i = 0; i < g->rule_count; i++)
        if (!strcmp(g->rules[i].field, "all") || !strcmp(g->rules[i].field, field)) return g->rules[i].code;
    return SUCCESS;
}

static void nap(void) {
    struct timespec pause = {0, 10 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

/* Take the lock and return what rules the call; the caller unlocks. A hang lasts until the scenario no longer has it. */
static int enter(const Handle *handle, const char *function, const char *field) {
    for (;;) {
        int code = SUCCESS;
        pthread_mutex_lock(&lock);
        refresh();
        if (missing(function)) return FUNCTION_NOT_FOUND;
        if (handle) code = ruling(&now.gpus[handle->gpu], field);
        if (code != HANG) return code;
        pthread_mutex_unlock(&lock);
        nap();
    }
}

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

/* One call of one GPU: the body runs when nothing rules otherwise, with `g` the GPU. */
#define DEVICE_CALL(function, field, parameters, body)      \
    EXPORT int function parameters {                        \
        int code = enter(handle, #function, field);         \
        const Gpu *g = &now.gpus[handle->gpu];              \
        (void)g;                                            \
        if (code == SUCCESS) body;                          \
        return leave(code);                                 \
    }

EXPORT int nvmlInitWithFlags(unsigned flags) {
    int code;
    (void)flags;
    for (;;) {
        enter(NULL, "nvmlInitWithFlags", "");
        code = now.init;
        leave(SUCCESS);
        if (code != HANG) return code;
        nap();
    }
}
EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }
EXPORT const char *nvmlErrorString(int code) { (void)code; return "an error of the NVML stand-in"; }

static int copy_text(char *out, unsigned size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    enter(NULL, "nvmlSystemGetDriverVersion", "");
    return leave(copy_text(out, size, now.driver));
}
EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    enter(NULL, "nvmlSystemGetNVMLVersion", "");
    return leave(copy_text(out, size, now.nvml));
}
EXPORT int nvmlSystemGetCudaDriverVersion(int *out) {
    int code = enter(NULL, "nvmlSystemGetCudaDriverVersion", "");
    *out = now.cuda;
    return leave(code);
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = enter(NULL, "nvmlDeviceGetCount_v2", "");
    *out = now.count;
    return leave(code);
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out) {
    Handle *handle;
    int code;
    if (index >= MAX_GPUS) return INVALID_ARGUMENT;
    handle = &handles[index][0];
    handle->gpu = (int)index;
    handle->mig = -1;
    code = enter(handle, "nvmlDeviceGetHandleByIndex_v2", "handle");
    *out = handle;
    return leave(index < now.count ? code : INVALID_ARGUMENT);
}

DEVICE_CALL(nvmlDeviceGetName, "name", (Handle * handle, char *out, unsigned size),
            code = copy_text(out, size, g->name))
DEVICE_CALL(nvmlDeviceGetUUID, "uuid", (Handle * handle, char *out, unsigned size),
            code = copy_text(out, size, g->uuid))
DEVICE_CALL(nvmlDeviceGetMemoryInfo, "memory", (Handle * handle, Memory *out), {
    out->total = g->total;
    out->used = g->used + g->reserved; /* version 1 counts what is reserved as used */
    out->free = g->total - out->used;
})
DEVICE_CALL(nvmlDeviceGetMemoryInfo_v2, "memory", (Handle * handle, Memory_v2 *out), {
    out->total = g->total;
    out->used = g->used;
    out->reserved = g->reserved;
    out->free = g->total - g->used - g->reserved;
})
DEVICE_CALL(nvmlDeviceGetUtilizationRates, "utilisation", (Handle * handle, Utilization *out), {
    out->gpu = g->util[0];
    out->memory = g->util[1];
})
DEVICE_CALL(nvmlDeviceGetTemperature, "temperature", (Handle * handle, int sensor, unsigned *out), {
    (void)sensor;
    *out = g->temperature;
})
DEVICE_CALL(nvmlDeviceGetTemperatureV, "temperature", (Handle * handle, Temperature_v1 *out),
            out->temperature = (int)g->temperature)
DEVICE_CALL(nvmlDeviceGetPowerUsage, "power", (Handle * handle, unsigned *out), *out = g->milliwatts)
DEVICE_CALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit", (Handle * handle, unsigned *out), *out = g->limit)
DEVICE_CALL(nvmlDeviceGetClockInfo, "clock", (Handle * handle, int kind, unsigned *out),
            *out = g->clock[kind == 1 || kind == 2 ? kind : 0])
DEVICE_CALL(nvmlDeviceGetTotalEccErrors, "ecc", (Handle * handle, int kind, int counter, unsigned long long *out), {
    (void)counter;
    *out = g->ecc[kind == 1 ? 0 : 1]; /* the scenario names the uncorrected ones first */
})
DEVICE_CALL(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle", (Handle * handle, unsigned long long *out),
            *out = g->throttle)
DEVICE_CALL(nvmlDeviceGetCurrentClocksEventReasons, "throttle", (Handle * handle, unsigned long long *out),
            *out = g->throttle)
DEVICE_CALL(nvmlDeviceGetPcieThroughput, "pcie", (Handle * handle, int counter, unsigned *out),
            *out = g->pcie[counter ? 1 : 0])
DEVICE_CALL(nvmlDeviceGetMigMode, "mig", (Handle * handle, unsigned *current, unsigned *pending),
            *current = *pending = g->mig_count > 0)
DEVICE_CALL(nvmlDeviceGetMaxMigDeviceCount, "mig", (Handle * handle, unsigned *out), *out = MAX_MIG - 1)
DEVICE_CALL(nvmlDeviceGetMigDeviceHandleByIndex, "mig", (Handle * handle, unsigned index, Handle **out), {
    if ((int)index < g->mig_count) {
        *out = &handles[handle->gpu][1 + index];
        (*out)->gpu = handle->gpu;
        (*out)->mig = (int)index;
    } else {
        code = NOT_FOUND;
    }
})

static int list(const Handle *handle, const char *function, const char *kind, unsigned *count, ProcessInfo *out) {
    int code = enter(handle, function, handle->mig < 0 ? "processes" : "mig_processes");
    const Gpu *g = &now.gpus[handle->gpu];
    unsigned room = *count, found = 0;
    if (code != SUCCESS) return leave(code);
    for (int i = 0; i < g->proc_count; i++) {
        const Proc *proc = &g->procs[i];
        if (strcmp(proc->list, kind) || (handle->mig >= 0 && proc->mig != handle->mig)) continue;
        if (out && found < room) {
            out[found].pid = proc->pid;
            out[found].bytes = proc->bytes;
            out[found].gpu_instance = out[found].compute_instance = proc->mig < 0 ? ~0U : (unsigned)proc->mig;
        }
        found++;
    }
    *count = found;
    return leave(found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

#define LIST_CALL(function, kind) \
    EXPORT int function(Handle *handle, unsigned *count, ProcessInfo *out) { return list(handle, #function, kind, count, out); }

LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps")
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")
