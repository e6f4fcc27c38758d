/* keep_socket - where the keeper of a recorded process listens. */
#ifndef MALLOCTAPE_KEEP_SOCKET_H
#define MALLOCTAPE_KEEP_SOCKET_H

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* Sets the address, and returns its length. `process`: as it calls itself. */
static inline socklen_t keep_socket_address(struct sockaddr_un *address, pid_t process)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                                "malloctape-keep-%d", (int)process);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#endif
