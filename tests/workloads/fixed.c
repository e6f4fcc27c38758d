/* fixed - a program at fixed addresses that takes the address of malloc, as python3 does: the
 * dynamic linker then says that malloc is a stub in the program. */
#include <stdlib.h>

int main(void)
{
    void *(*volatile allocate)(size_t) = malloc;
    free(allocate(777));
    return 0;
}
