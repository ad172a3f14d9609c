/* An allocator of its own, to be preloaded. It ends the process where it is given a block that it did not hand out, or one that was
 * freed, and may be called in signal handlers, also while one of its functions runs. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION ((size_t)64 << 30)
#define LIVE 0x4c495645u
#define FREED 0x46524545u

/* What lies before each block. */
struct head {
    uintptr_t chunk;
    uint32_t class;
    uint32_t state;
};

/* A chunk of memory has 2 to the power of its class bytes. Those that are free are a list for each class. */
static uintptr_t region, next, free_chunks[48];
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void fail(const char *why) {
    static const char name[] = "strict_malloc: ";
    if (write(2, name, sizeof name - 1) < 0 || write(2, why, strlen(why)) < 0 || write(2, "\n", 1) < 0) { /* It ends anyway. */ }
    sigset_t abort_only;
    sigemptyset(&abort_only);
    sigaddset(&abort_only, SIGABRT);
    signal(SIGABRT, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &abort_only, NULL);
    raise(SIGABRT);
    _exit(134);
}

static void lock(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) { }
}

static void unlock(const sigset_t *before) {
    atomic_flag_clear_explicit(&busy, memory_order_release);
    sigprocmask(SIG_SETMASK, before, NULL);
}

static void before_fork(void) { while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) { } }
static void after_fork(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static struct head *head_of(void *block, const char *why) {
    struct head *head = (struct head *)block - 1;
    uintptr_t at = (uintptr_t)block;
    if (at < region + sizeof *head || at >= next || at % 16 || head->state != LIVE) fail(why);
    return head;
}

static size_t room(struct head *head) { return head->chunk + ((size_t)1 << head->class) - (uintptr_t)(head + 1); }

static void *take(size_t align, size_t size, int zeroed) {
    if (align < 16) align = 16;
    /* As others do, so that large blocks of zeros can be told apart from other blocks when they are freed. */
    if (size >= 65536 && align < 4096) align = 4096;
    if (size > REGION / 4 || align > REGION / 4) { errno = ENOMEM; return NULL; }
    size_t needed = size + align + sizeof(struct head);
    uint32_t class = 6;
    while (((size_t)1 << class) < needed) class++;
    sigset_t before;
    lock(&before);
    if (!region) {
        void *at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) fail("no memory for the region");
        region = next = (uintptr_t)at;
    }
    uintptr_t chunk = free_chunks[class];
    int fresh = !chunk;
    if (fresh) {
        if (next + ((size_t)1 << class) > region + REGION) { unlock(&before); errno = ENOMEM; return NULL; }
        chunk = next;
        next += (size_t)1 << class;
    } else {
        free_chunks[class] = *(uintptr_t *)chunk;
    }
    uintptr_t block = (chunk + sizeof(struct head) + align - 1) & ~(uintptr_t)(align - 1);
    struct head *head = (struct head *)block - 1;
    head->chunk = chunk;
    head->class = class;
    head->state = LIVE;
    unlock(&before);
    /* Pages that were never written to are zeros. */
    if (zeroed && !fresh) memset((void *)block, 0, size);
    return (void *)block;
}

void *malloc(size_t size) { return take(16, size, 0); }

void free(void *block) {
    if (!block) return;
    int error = errno;
    sigset_t before;
    lock(&before);
    struct head *head = head_of(block, "free() of a block that is not mine, or was freed");
    uint32_t class = head->class;
    uintptr_t chunk = head->chunk;
    head->state = FREED;
    *(uintptr_t *)chunk = free_chunks[class];
    free_chunks[class] = chunk;
    unlock(&before);
    errno = error;
}

void *calloc(size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) { errno = ENOMEM; return NULL; }
    return take(16, all, 1);
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    size_t had = room(head_of(block, "realloc() of a block that is not mine, or was freed"));
    if (size && size <= had && size >= had / 4) return block;
    void *moved = malloc(size);
    if (!moved) return NULL;
    memcpy(moved, block, had < size ? had : size);
    free(block);
    return moved;
}

void *reallocarray(void *block, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) { errno = ENOMEM; return NULL; }
    return realloc(block, all);
}

void *memalign(size_t align, size_t size) { return take(align, size, 0); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size, 0); }
void *valloc(size_t size) { return take(4096, size, 0); }
void *pvalloc(size_t size) { return take(4096, (size + 4095) & ~(size_t)4095, 0); }

int posix_memalign(void **block, size_t align, size_t size) {
    if (align % sizeof(void *) || (align & (align - 1)) || !align) return EINVAL;
    int error = errno;
    void *found = take(align, size, 0);
    errno = error;
    if (!found) return ENOMEM;
    *block = found;
    return 0;
}

size_t malloc_usable_size(void *block) { return block ? room(head_of(block, "malloc_usable_size() of a block that is not mine")) : 0; }

/* So that a test knows that it is this allocator which is in force. */
size_t strict_malloc_bytes(void) { return next - region; }
