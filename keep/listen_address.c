#include "keep/listen_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LISTEN_QUEUE = 1024 };

static int listen_fail(struct error *error, const char *why)
{
    error_set(error, &error_system, ERROR_NO_OFFSET, "%s", why);
    return -1;
}

static int listen_fail_system(struct error *error, int file, const char *why)
{
    error_set_system(error, "%s", why);
    if (file >= 0) close(file);
    return -1;
}

/* A socket that an earlier keeper has left is replaced, nothing else is. Only its owner may
 * connect. */
static int listen_at_path(const char *path, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    if (strlen(path) >= sizeof address.sun_path)
        return listen_fail(error, "the path is too long for a socket");
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) return listen_fail_system(error, file, "cannot make a socket");
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) &&
        connect(file, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
        unlink(path);
    const mode_t before = umask(0177);
    const int bound = bind(file, (struct sockaddr *)&address, sizeof address);
    umask(before);
    if (bound != 0 || listen(file, LISTEN_QUEUE) != 0)
        return listen_fail_system(error, file, "cannot listen");
    return file;
}

static bool address_is_loopback(const struct addrinfo *found)
{
    if (found->ai_family == AF_INET) {
        const struct sockaddr_in *address = (const void *)found->ai_addr;
        return ntohl(address->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *address = (const void *)found->ai_addr;
    return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
}

static int listen_at_found(const struct addrinfo *found, struct error *error)
{
    const int yes = 1;
    const int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) return listen_fail_system(error, file, "cannot make a socket");
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(file, found->ai_addr, found->ai_addrlen) != 0 || listen(file, LISTEN_QUEUE) != 0)
        return listen_fail_system(error, file, "cannot listen");
    return file;
}

int listen_address_open(const char *address, bool for_everybody, bool *is_path, struct error *error)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    char host[256];
    *is_path = strchr(address, '/') != NULL;
    if (*is_path) return listen_at_path(address, error);
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || colon[1] == '\0' ||
        (size_t)(colon - address) >= sizeof host)
        return listen_fail(error, "neither HOST:PORT nor the path of a socket");
    const bool has_brackets = *address == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * has_brackets,
             address + has_brackets);
    if (getaddrinfo(host, colon + 1, &wanted, &found) != 0)
        return listen_fail(error, "there is no such address");
    const int file = for_everybody || address_is_loopback(found)
                         ? listen_at_found(found, error)
                         : listen_fail(error, "others could read it: use a loopback address, or "
                                              "--token FILE");
    freeaddrinfo(found);
    return file;
}
