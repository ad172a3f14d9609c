/* Has a program run its `main` in a second thread, as a program does that embeds Python beside its own first thread:
 * LD_PRELOAD this. The first thread waits for the second one; with SECOND_THREAD_WORKS it computes meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int main_t(int, char **, char **);
typedef int start_t(main_t *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static main_t *program;
static struct { int count; char **words; char **environment; } with;
static atomic_ulong work;

static void *run(void *unused)
{
    (void)unused;
    exit(program(with.count, with.words, with.environment));
}

static int beside(int count, char **words, char **environment)
{
    with.count = count;
    with.words = words;
    with.environment = environment;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    if (pthread_create(&thread, &attributes, run, NULL) != 0)
        return 99;
    while (getenv("SECOND_THREAD_WORKS") != NULL)
        atomic_fetch_add(&work, 1);
    pthread_join(thread, NULL);
    return 98;
}

int __libc_start_main(main_t *main, int count, char **words, void (*before)(void), void (*after)(void), void (*end)(void), void *stack)
{
    start_t *start = (start_t *)dlsym(RTLD_NEXT, "__libc_start_main");
    program = main;
    return start(beside, count, words, before, after, end, stack);
}
