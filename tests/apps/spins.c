/* Native code that runs until it is told to end, without a system call. */
void spin(const volatile int *until)
{
    while (*until == 0) {
    }
}
