/* Forks in a loop, without the GIL, until it is told to stop, and counts the children that do not see memory as it is. */

#include <sys/wait.h>
#include <unistd.h>

int children_without(const char *memory, long size, char expected, const volatile int *stop)
{
    int without = 0;
    while (!*stop) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            for (long at = 0; at < size; at += 1 << 20)
                if (memory[at] != expected)
                    _exit(1);
            _exit(0);
        }
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
            without += 1;
    }
    return without;
}
