/* raw_encoder - the tests' one encoder of raw streams and spools, written from FORMAT.md alone.
 *
 *   record --encode()--> code --append()--> segment --pack(), plain()--> payload of a chunk
 *                                              \--encode_spool_slot()--> slot of a spool
 *
 * The simulator's RawWriter makes whole recordings with it, RawBuilder the streams that tests write
 * by hand. Where the format leaves a choice, the encoder takes the shortest form, or one by chance
 * if it has random numbers. It shares no code with the readers and writers of the product but the
 * library of the checksum and the list of calls. */
#ifndef TESTS_SIM_RAW_ENCODER_H
#define TESTS_SIM_RAW_ENCODER_H

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/truth.h"

/* A record as a stream says it: objects by place. */
struct RawRecord {
    uint8_t number = 0, kind = 0, count = 0;
    uint32_t lane = 0, structure = 0; /* or class */
    bool has_object = false, unknown = false;
    uint32_t object_lane = 0, object_place = 0, object_class = 0;
    uint64_t object_serial = 0, bound = 0;
    uint32_t place = 0, place_class = 0; /* of what begins */
    bool implied = false;                /* they need not be said */
    uint32_t after_lane = 0;             /* `after`, of an opaque stream */
    uint64_t after = 0;
    bool of_realloc = false;
    std::vector<uint32_t> places;     /* `cached` */
    uint32_t stack = 0;               /* of a call; 0: none */
    std::vector<uint64_t> numbers;    /* `define`: what is behind the first one */
    uint64_t size = 0, alignment = 0; /* as in Record */
    uint64_t address = 0;             /* of what begins */
    uint64_t allocations = 0;         /* it adds to its lane */
    /* kNoAge: no age in a packed chunk. kFar: nor a place in one unit. */
    enum Form { kShortest, kNoAge, kFar, kGeneral } form = kShortest;
};

/* What a segment remembers for the codes that follow (FORMAT.md 5.4). */
struct RawMemory {
    struct Entry {
        bool is_set = false;
        uint32_t lane = 0;
        uint64_t bound = 0;
    } entries[8];
    uint64_t address = 0;
    uint64_t page_place = 0, page_address = 0;
    uint64_t next[2] = {0, 0}; /* codes, nodes */
};

/* Units that say the place of an object, for which a packed chunk may have its age (FORMAT.md 5.5).
 */
struct RawAged {
    size_t at = 0, count = 0; /* units of the segment; 0: none */
    int slot = 0;             /* of the profile */
    uint64_t serial = 0, allocations = 0;
};

/* What a call of an opaque stream does to the places of its lane (FORMAT.md 5.6), and where its
 * units are that say places: `at`, and behind that. */
struct RawPlaced {
    size_t at = 0, count = 0;
    size_t place_at = 0;  /* x and y; 0: there are none */
    bool compact = false; /* the unit and the next one say size and place */
    bool begins = false, ends = false;
    uint32_t place = 0, ended = 0;
    uint64_t size = 0;
};

/* What a reader knows of the places of a lane. */
class RawPlaces {
  public:
    explicit RawPlaces(unsigned rounding = 0) : rounding_(rounding) {}
    void round(unsigned rounding) { rounding_ = rounding; }
    int64_t last() const { return latest_.empty() ? 0 : latest_.back(); }
    uint64_t age(uint32_t place) const;            /* 0: none */
    int find(uint64_t size, uint32_t place) const; /* -1: not among those that can be named */
    void take(uint64_t size, int index);
    void begin(uint32_t place, uint64_t size);
    void end(uint32_t place);

  private:
    int step(uint64_t size) const
    {
        return size < 4096 ? static_cast<int>((size + rounding_) / 16) : -1;
    }
    unsigned rounding_;
    std::vector<uint32_t> latest_;
    std::map<uint32_t, std::pair<uint32_t, int>> sizes_; /* by entry: place, step */
    std::map<int, std::deque<uint32_t>> lists_;
};

/* The units of one record, and what is remembered behind it. */
struct RawCode {
    std::vector<uint16_t> units;
    RawAged aged;
    RawPlaced placed;
    RawMemory memory;
};

/* What a lane writes into one slot. */
struct RawSegment {
    uint64_t first_unit = 0, first_allocation = 0;
    uint8_t profile[8] = {};
    bool key = false;
    std::vector<uint16_t> units;
    std::vector<RawAged> aged;
    std::vector<RawPlaced> placed; /* of an opaque stream: its calls */
    RawMemory memory;
    uint64_t latest[kStructures] = {}; /* sequence numbers */
};

class RawEncoder {
  public:
    explicit RawEncoder(bool addresses, Random *random = nullptr, bool opaque = false)
        : addresses_(addresses), opaque_(opaque), random_(random)
    {
    }

    /* The code of a record that would be the segment's next. */
    RawCode encode(const RawSegment &segment, const RawRecord &record);

    /* Before the record its lane has had so many allocations. */
    static void append(RawSegment &segment, const RawRecord &record, const RawCode &code,
                       uint64_t allocations);

    /* FORMAT.md 5.5: units [from, to). Since allocation `packed_from` all chunks are packed.
     * `wrong_ages` is a fault of the simulator. */
    std::string pack(const RawSegment &segment, size_t from, size_t to, uint64_t packed_from,
                     bool wrong_ages = false);
    /* The same of an opaque stream, given what is known before the units (FORMAT.md 5.6). */
    std::string pack_opaque(const RawSegment &segment, size_t from, size_t to, RawPlaces &places,
                            bool wrong_lists = false);
    static std::string plain(const RawSegment &segment, size_t from, size_t to);
    void put_packed(std::string &to, unsigned unit);

  private:
    bool chance(uint64_t count) { return random_ != nullptr && random_->one_in(count); }
    void add(uint64_t unit) { code_.units.push_back(static_cast<uint16_t>(unit)); }
    void add_number(uint64_t value);
    void add_operands(const RawRecord &record, bool with_size);
    void add_place(const RawRecord &record);
    void add_object_at(const RawRecord &record, uint64_t base, bool far, int slot);
    void encode_event(const RawSegment &segment, const RawRecord &record);
    void encode_allocation(const RawSegment &segment, const RawRecord &record);
    void encode_ending(const RawSegment &segment, const RawRecord &record);
    void encode_after(const RawRecord &record);
    void encode_definition(const RawRecord &record);
    void note_call(const RawRecord &record);
    void pack_place(std::string &out, const RawPlaced &placed, RawPlaces &places, bool wrong);
    bool encode_foreign(const RawSegment &segment, const RawRecord &record);
    void encode_object(const RawRecord &record);
    void encode_general(const RawRecord &record);

    bool addresses_, opaque_;
    Random *random_;
    RawCode code_; /* of the record being encoded */
};

/* --- what is around units --- */

struct RawStreamHeader {
    std::string metadata;
    uint64_t features = 0, info = 0;
    std::string id = "0123456789abcdef";
    uint64_t start_ns = 1700000000000000000;
    uint32_t pid = 4711;
    unsigned minor = 0;
};
std::string encode_stream_header(const RawStreamHeader &header);

/* Any chunk at all; the checksum is right. */
std::string encode_chunk(int type, int flags, uint32_t lane, const std::string &payload,
                         uint64_t units, uint64_t first, uint64_t first_allocation);

/* The payload of an end chunk. */
struct RawEnd {
    uint64_t status = 0, nanoseconds = 0, events = 0, lost = 0, waits = 0, waited = 0;
    std::vector<uint64_t> lane_units;
};
std::string encode_end(const RawEnd &end);

constexpr uint64_t kSlotHeaderBytes = 64;
std::string encode_spool_header(uint64_t slot_bytes, const std::string &id, uint32_t pid,
                                uint64_t features);

/* A slot; `units` are bytes. */
struct SpoolSlot {
    uint32_t state = 1, lane = 0;
    uint64_t serial = 0, first_allocation = 0, first_unit = 0;
    std::string profile;
    bool key = false;
    std::string units;
};
std::string encode_spool_slot(const SpoolSlot &slot, uint64_t slot_bytes);

#endif
