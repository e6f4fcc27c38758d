#include "replay/promises.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/call_table.h"
#include "common/pages.h"
#include "stream/instruction.h"

static const struct error_kind broken_promise = {
    "replay_promise", "the allocator is at fault: it broke what malloc promises"};

/* One page in 256. */
#define WATCHED_SOME (UINT64_C(1) << 56)

enum { NODES_LEAST = 4096 };

void promises_open(struct promises *promises, bool all)
{
    *promises =
        (struct promises){.watched_below = all ? UINT64_MAX : WATCHED_SOME, .used = 1, .random = 1};
    pthread_mutex_init(&promises->lock, NULL);
}

void promises_close(struct promises *promises)
{
    pages_unmap(promises->nodes, promises->capacity * sizeof *promises->nodes);
    pthread_mutex_destroy(&promises->lock);
}

bool promises_set_error(struct promises *promises, struct error *error, unsigned opcode,
                        uint64_t size, uint64_t number, uint64_t offset)
{
    if (!promises->is_broken) return false;
    return !error_set(error, &broken_promise, offset,
                      "instruction %" PRIu64 ": %s of %" PRIu64 " bytes returned %s", number,
                      call_names[opcode & INSTRUCTION_NUMBER_MASK], size, promises->how);
}

bool promises_is_error(const struct error *error)
{
    return error->kind == &broken_promise;
}

/* ---- the table ---- */

/* A new node; 0: no memory, and the object is not watched. */
static uint32_t node_new(struct promises *promises, uint64_t begin, uint64_t end)
{
    uint32_t node = promises->free;
    if (node != 0)
        promises->free = promises->nodes[node].left;
    else if (promises->used < UINT32_MAX &&
             pages_reserve(&promises->nodes, &promises->capacity, promises->used + 1, NODES_LEAST,
                           sizeof *promises->nodes))
        node = (uint32_t)promises->used++;
    else
        return 0;
    promises->random ^= promises->random << 13;
    promises->random ^= promises->random >> 17;
    promises->random ^= promises->random << 5;
    promises->nodes[node] =
        (struct promises_node){.begin = begin, .end = end, .priority = promises->random};
    return node;
}

/* Splits a tree: objects that begin before `at`, and the others. */
static void tree_split(struct promises_node *nodes, uint32_t tree, uint64_t at, uint32_t *before,
                       uint32_t *after)
{
    while (tree != 0) {
        if (nodes[tree].begin < at) {
            *before = tree;
            before = &nodes[tree].right;
            tree = *before;
        } else {
            *after = tree;
            after = &nodes[tree].left;
            tree = *after;
        }
    }
    *before = *after = 0;
}

/* Joins two trees, all of whose objects are in this order. */
static uint32_t tree_join(struct promises_node *nodes, uint32_t before, uint32_t after)
{
    uint32_t tree, *to = &tree;
    while (before != 0 && after != 0) {
        if (nodes[before].priority > nodes[after].priority) {
            *to = before;
            to = &nodes[before].right;
            before = *to;
        } else {
            *to = after;
            to = &nodes[after].left;
            after = *to;
        }
    }
    *to = before != 0 ? before : after;
    return tree;
}

/* The place where the object that begins there, or one of this priority, is or would be put. */
static uint32_t *tree_find(struct promises *promises, uint64_t begin, uint32_t priority)
{
    struct promises_node *const nodes = promises->nodes;
    uint32_t *at = &promises->root;
    while (*at != 0 && nodes[*at].begin != begin && nodes[*at].priority >= priority)
        at = begin < nodes[*at].begin ? &nodes[*at].left : &nodes[*at].right;
    return at;
}

/* An object that shares a byte with this one; 0: none. */
static uint32_t find_overlap(const struct promises *promises, uint64_t begin, uint64_t end)
{
    const struct promises_node *const nodes = promises->nodes;
    uint32_t at = promises->root, found = 0; /* the last one that begins before `end` */
    while (at != 0) {
        if (nodes[at].begin < end) found = at;
        at = nodes[at].begin < end ? nodes[at].right : nodes[at].left;
    }
    return found != 0 && nodes[found].end > begin ? found : 0;
}

/* ---- promises ---- */

static void break_alignment(struct promises *promises, uint64_t address, uint64_t alignment)
{
    pthread_mutex_lock(&promises->lock);
    if (!promises->is_broken)
        snprintf(promises->how, sizeof promises->how,
                 "0x%" PRIx64 ", which is not aligned to %" PRIu64, address, alignment);
    promises->is_broken = true;
    pthread_mutex_unlock(&promises->lock);
}

bool promises_aligned(struct promises *promises, uint64_t address, uint64_t size,
                      uint64_t alignment)
{
    if (size == 0) return true;
    const uint64_t wanted = alignment != 0 ? alignment : size >= 16 ? 16 : size >= 8 ? 8 : 1;
    if ((wanted & (wanted - 1)) != 0) return true; /* no power of two: nothing is promised */
    if ((address & (wanted - 1)) == 0) return true;
    break_alignment(promises, address, wanted);
    return false;
}

static void break_overlap(struct promises *promises, uint64_t address, uint32_t other)
{
    const struct promises_node *object = &promises->nodes[other];
    if (!promises->is_broken)
        snprintf(promises->how, sizeof promises->how,
                 "0x%" PRIx64 ", where a live object is: 0x%" PRIx64 ", %" PRIu64 " bytes", address,
                 object->begin, object->end - object->begin);
    promises->is_broken = true;
}

bool promises_put(struct promises *promises, uint64_t address, uint64_t size)
{
    if (size == 0) return true;
    pthread_mutex_lock(&promises->lock);
    const uint32_t other = find_overlap(promises, address, address + size);
    const uint32_t node = other == 0 ? node_new(promises, address, address + size) : 0;
    if (other != 0) break_overlap(promises, address, other);
    if (node != 0) {
        struct promises_node *const nodes = promises->nodes;
        uint32_t *at = tree_find(promises, address, nodes[node].priority);
        tree_split(nodes, *at, address, &nodes[node].left, &nodes[node].right);
        *at = node;
    }
    pthread_mutex_unlock(&promises->lock);
    return other == 0;
}

void promises_take(struct promises *promises, uint64_t address)
{
    pthread_mutex_lock(&promises->lock);
    struct promises_node *const nodes = promises->nodes;
    uint32_t *at = tree_find(promises, address, 0);
    const uint32_t node = *at;
    if (node != 0) {
        *at = tree_join(nodes, nodes[node].left, nodes[node].right);
        nodes[node].left = promises->free;
        promises->free = node;
    }
    pthread_mutex_unlock(&promises->lock);
}
