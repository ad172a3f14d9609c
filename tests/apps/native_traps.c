/* Native code that allocates where a sampler is easily surprised: in threads that no Python code knows, before the interpreter starts and
 * after it has ended, in destructors of thread-local data, in signal handlers, and by every function of malloc's family.
 *
 * With NATIVE_TRAPS_EARLY in the environment, a thread begins when the library is loaded, and allocates to the very end. */

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static _Atomic long early_rounds, destroyed, handled, wrong;

static void fill(unsigned char *block, size_t size, unsigned char with) {
    if (block) memset(block, with, size);
}

static void check(const unsigned char *block, size_t size, unsigned char with) {
    for (size_t at = 0; block && at < size; at++) {
        if (block[at] != with) {
            wrong++;
            return;
        }
    }
}

/* Blocks of all sizes, which live for a while, grow, and keep their bytes. */
static void churn(unsigned seed, int rounds) {
    enum { KEPT = 64 };
    unsigned char *kept[KEPT] = {0};
    size_t sizes[KEPT] = {0};
    for (int round = 0; round < rounds; round++) {
        seed = seed * 1103515245u + 12345u;
        unsigned at = (seed >> 8) % KEPT;
        size_t size = 1 + (seed >> 4) % ((seed >> 20) % 16 ? 900 : 60000);
        check(kept[at], sizes[at], (unsigned char)at);
        if (seed >> 30) {
            free(kept[at]);
            kept[at] = malloc(size);
        } else {
            unsigned char *moved = realloc(kept[at], size);
            check(moved, sizes[at] < size ? sizes[at] : size, (unsigned char)at);
            kept[at] = moved;
        }
        sizes[at] = size;
        fill(kept[at], size, (unsigned char)at);
    }
    for (int at = 0; at < KEPT; at++) {
        check(kept[at], sizes[at], (unsigned char)at);
        free(kept[at]);
    }
}

static void *early(void *nothing) {
    (void)nothing;
    for (unsigned seed = 1;; seed++) {
        churn(seed, 200);
        early_rounds++;
        usleep(200);
    }
    return NULL;
}

__attribute__((constructor)) static void loaded(void) {
    pthread_t thread;
    if (getenv("NATIVE_TRAPS_EARLY") && pthread_create(&thread, NULL, early, NULL) == 0) pthread_detach(thread);
}

long traps_early_rounds(void) { return early_rounds; }
long traps_destroyed(void) { return destroyed; }
long traps_handled(void) { return handled; }
long traps_wrong(void) { return wrong; }

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* It frees what the thread had, allocates, and has itself called again for what it leaves. */
static void destroy(void *block) {
    long turn = *(long *)block;
    free(block);
    churn((unsigned)turn, 50);
    destroyed++;
    if (turn < 3) {
        long *next = malloc(600);
        *next = turn + 1;
        pthread_setspecific(key, next);
    }
}

static void make_key(void) { pthread_key_create(&key, destroy); }

static void *thread_with_a_destructor(void *seed) {
    pthread_once(&key_once, make_key);
    long *turn = malloc(600);
    *turn = 0;
    pthread_setspecific(key, turn);
    churn((unsigned)(uintptr_t)seed, 300);
    return NULL;
}

/* Threads without Python, one group after the other, so that threads end while others begin. */
int traps_threads(int groups, int each) {
    pthread_t threads[64];
    for (int group = 0; group < groups; group++) {
        for (int at = 0; at < each; at++)
            if (pthread_create(&threads[at], NULL, thread_with_a_destructor, (void *)(uintptr_t)(group * 64 + at + 1))) return -1;
        for (int at = 0; at < each; at++) pthread_join(threads[at], NULL);
    }
    return 0;
}

static void *keep(void *bytes) {
    size_t count = (size_t)(uintptr_t)bytes / 5000;
    void **kept = malloc(count * sizeof *kept);
    for (size_t at = 0; at < count; at++) kept[at] = malloc(5000);
    return kept;
}

/* A thread without Python that leaves so many bytes in blocks of 5000. */
void *traps_keep(size_t bytes) {
    pthread_t thread;
    void *kept = NULL;
    if (pthread_create(&thread, NULL, keep, (void *)(uintptr_t)bytes)) return NULL;
    pthread_join(thread, &kept);
    return kept;
}

void traps_drop(void **kept, size_t bytes) {
    for (size_t at = 0; at < bytes / 5000; at++) free(kept[at]);
    free(kept);
}

/* Every function that hands out memory: what it gives is aligned, as large as asked, and can be freed. Gives the number of the first
 * that is not so, or 0. */
int traps_family(int rounds) {
    for (int round = 0; round < rounds; round++) {
        for (int shift = 4; shift <= 16; shift++) {
            size_t align = (size_t)1 << shift, size = (size_t)(1 + round * 37 % 5000) * (shift < 8 ? 16 : 1);
            void *blocks[6] = {0};
            if (posix_memalign(&blocks[0], align, size)) return 1;
            blocks[1] = memalign(align, size);
            blocks[2] = aligned_alloc(align, (size + align - 1) / align * align);
            blocks[3] = valloc(size);
            blocks[4] = reallocarray(NULL, size, 3);
            blocks[5] = calloc(size, 2);
            for (int at = 0; at < 6; at++) {
                uintptr_t block = (uintptr_t)blocks[at];
                /* Some allocators align what has no room for more to 8 bytes. */
                size_t wanted = at < 3 ? align : at == 3 ? 4096 : size < 16 ? 8 : 16;
                if (!block || block % wanted) return 10 + at;
                if (malloc_usable_size(blocks[at]) < size) return 20 + at;
                if (at == 5)
                    for (size_t byte = 0; byte < 2 * size; byte++)
                        if (((char *)block)[byte]) return 30;
                fill(blocks[at], size, (unsigned char)(at + 1));
            }
            blocks[4] = reallocarray(blocks[4], size, 7);
            blocks[1] = realloc(blocks[1], size + 3000);
            for (int at = 0; at < 6; at++) {
                check(blocks[at], size, (unsigned char)(at + 1));
                free(blocks[at]);
            }
        }
    }
    void *block = NULL;
    if (posix_memalign(&block, 24, 100) != EINVAL) return 40;
    volatile size_t huge = SIZE_MAX / 2;
    errno = 0;
    if (reallocarray(NULL, huge, 3) || errno != ENOMEM) return 41;
    return wrong ? 50 : 0;
}

static void handle(int number) {
    (void)number;
    static _Atomic unsigned seed;
    int error = errno;
    unsigned char *block = malloc(1 + ++seed * 97 % 3000);
    fill(block, 1, 7);
    unsigned char *moved = realloc(block, 4000);
    check(moved, 1, 7);
    free(moved);
    handled++;
    errno = error;
}

/* A handler that allocates, on a signal each so many microseconds of processor time. The allocator must allow that. */
int traps_signals(int micros) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, micros}, {0, micros}};
    return sigaction(SIGPROF, &action, NULL) || setitimer(ITIMER_PROF, &every, NULL);
}

/* The same by a signal that this thread sends to itself: it runs no function of the allocator then. */
int traps_raise(int times) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    if (sigaction(SIGPROF, &action, NULL)) return 1;
    while (times--) raise(SIGPROF);
    return 0;
}

/* A hook on CPython's allocators that another tool has put in place. */
struct allocator {
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};

static struct allocator below;
static _Atomic long foreign_calls;

static void *foreign_malloc(void *ctx, size_t size) { (void)ctx; foreign_calls++; return below.malloc(below.ctx, size); }
static void *foreign_calloc(void *ctx, size_t count, size_t size) { (void)ctx; foreign_calls++; return below.calloc(below.ctx, count, size); }
static void *foreign_realloc(void *ctx, void *block, size_t size) { (void)ctx; foreign_calls++; return below.realloc(below.ctx, block, size); }
static void foreign_free(void *ctx, void *block) { (void)ctx; foreign_calls++; below.free(below.ctx, block); }

/* Takes PyMem_GetAllocator and PyMem_SetAllocator, and hooks a domain with them. */
void traps_foreign_hook(int domain, void (*get)(int, struct allocator *), void (*set)(int, struct allocator *)) {
    struct allocator ours = {NULL, foreign_malloc, foreign_calloc, foreign_realloc, foreign_free};
    get(domain, &below);
    set(domain, &ours);
}

long traps_foreign_calls(void) { return foreign_calls; }
