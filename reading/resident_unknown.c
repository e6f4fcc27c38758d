#include "reading/resident_unknown.h"

#include "stream/residency.h"

/* HEAP_MAX_SIZE of glibc on machines of 64 bits; what the dynamic linker maps is smaller. */
#define RESIDENT_ARENA_BYTES (UINT64_C(64) << 20)
#define RESIDENT_SMALL_BYTES (UINT64_C(64) << 10)

static bool resident_is_arena(const struct resident_dividing *dividing,
                              const struct resident_piece *piece)
{
    return dividing->is_glibc && piece->has_first && piece->start % RESIDENT_ARENA_BYTES == 0 &&
           piece->end - piece->start <= RESIDENT_ARENA_BYTES;
}

/* Takes it from what such chunks can have. */
static bool resident_is_large_chunk(struct resident_dividing *dividing,
                                    const struct resident_piece *piece)
{
    const uint64_t bytes = piece->end - piece->start;
    if (!dividing->is_libc || !piece->has_first || bytes > dividing->large_bytes) return false;
    dividing->large_bytes -= bytes;
    return true;
}

enum resident_owner resident_unknown(struct resident_dividing *dividing,
                                     const struct resident_piece *piece,
                                     const struct resident_file *before)
{
    const uint64_t bytes = piece->end - piece->start;
    if (before->end == piece->start && (piece->protection & RESIDENCY_WRITE)) return RESIDENT_FILE;
    if (piece->is_heap || resident_is_arena(dividing, piece)) return RESIDENT_HEAP;
    if (!piece->has_first && piece->has_last && (piece->protection & RESIDENCY_WRITE))
        return RESIDENT_STACK;
    if (resident_is_large_chunk(dividing, piece)) return RESIDENT_HEAP;
    return bytes <= RESIDENT_SMALL_BYTES ? RESIDENT_LIBC : RESIDENT_UNOWNED;
}
