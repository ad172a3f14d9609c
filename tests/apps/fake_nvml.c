/* A made-up libnvidia-ml: the processes of its only card are in FAKE_NVML, as "PID:BYTES,PID:BYTES"; it fails where that is "no". */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned instance, compute;
};

static const char *told(void) {
    const char *text = getenv("FAKE_NVML");
    return text ? text : "no";
}

int nvmlInit_v2(void) { return strcmp(told(), "no") == 0 ? 9 : 0; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    static int card;
    *handle = &card;
    return strcmp(uuid, "GPU-0") == 0 ? 0 : 6;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *rows) {
    const char *at = told();
    unsigned found = 0;
    (void)handle;
    while (*at) {
        char *end;
        if (found == *count)
            return 7;
        unsigned long long number = strtoull(at, &end, 10);
        /* 0 stands for the process that asks. */
        rows[found].pid = number ? (unsigned)number : (unsigned)getpid();
        rows[found].used = strtoull(end + 1, &end, 10);
        found++;
        at = *end == ',' ? end + 1 : end;
    }
    *count = found;
    return 0;
}
