/* What the kernel makes of huge pages around a fork: the fork, writes while the child is there, and mending.
 *
 *     cc -O2 -o /tmp/huge_pages bench/huge_pages.c && /tmp/huge_pages MEGABYTES huge|small|mended PERCENT
 *
 * PERCENT of the pages are written to while the child is there. With `mended`, MADV_COLLAPSE follows each round. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { SMALL = 4096, HUGE = 2 << 20 };

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static long in_huge_pages_mb(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (file && fgets(line, sizeof line, file) && sscanf(line, "AnonHugePages: %ld", &kib) != 1) { }
    if (file)
        fclose(file);
    return kib / 1024;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t bytes = (size_t)atol(words[1]) << 20;
    int small = !strcmp(words[2], "small"), mended = !strcmp(words[2], "mended"), percent = atoi(words[3]);
    char *memory = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    memory = (char *)(((size_t)memory + HUGE - 1) & ~((size_t)HUGE - 1));
    madvise(memory, bytes, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    double began = now_ms();
    memset(memory, 1, bytes);
    printf("first touch: %.3f ms for each 2 MiB\n", (now_ms() - began) / (bytes / HUGE));
    for (int round = 0; round < 3; round++) {
        began = now_ms();
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        double forked = now_ms() - began, worst = 0, sum = 0;
        size_t writes = 0;
        for (size_t at = 0; at < bytes; at += SMALL) {
            if (rand() % 100 >= percent)
                continue;
            began = now_ms();
            memory[at]++;
            double took = now_ms() - began;
            sum += took;
            worst = took > worst ? took : worst;
            writes++;
        }
        printf("fork %.2f ms; %zu writes, %.2f us each, worst %.3f ms; in huge pages then %ld MB\n", forked, writes,
               writes ? sum * 1e3 / writes : 0, worst, in_huge_pages_mb());
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        if (!mended)
            continue;
        began = now_ms();
        for (size_t at = 0; at < bytes; at += HUGE)
            madvise(memory + at, HUGE, MADV_COLLAPSE);
        printf("mended: %.3f ms for each 2 MiB; in huge pages %ld MB\n", (now_ms() - began) / (bytes / HUGE),
               in_huge_pages_mb());
    }
    return 0;
}
