// handoff_check - compares a recording of tests/workloads/handoff with the program's own logs.
//
//   malloctape dump RAW | handoff_check THREADS LOG
//
// For each thread: every allocation has the size that the program asked for, and every free and
// realloc names the very object that the log names, in the same order, none more and none less.
// Prints what it compared; exit status 1 and the first few mistakes when there are any.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/workloads/handoff.h"

namespace {

// An object as a dump names it: LANE:SERIAL@PLACE. Where it ends, of a lane's allocations up to
// that serial the latest one at the place; where it begins, and from resolve() on, that very one.
// Serials count a lane's allocations, or all its calls if the recording is of an opaque allocator.
struct Object {
    uint32_t lane;
    uint64_t serial;
    uint32_t place;
};

struct Free {
    Object object;
    bool is_realloc;
};

// What one thread of the program did, as the recording has it.
struct Player {
    uint32_t lane = 0;
    uint64_t mark = 0;             // serial of the mark where it begins
    std::vector<uint64_t> serials; // of its objects
    std::vector<uint64_t> sizes;
    std::vector<Free> frees;
    bool complete = false;
};

std::unordered_map<uint32_t, int> playing; // lane: thread that is between its two marks
std::vector<Player> players;
std::unordered_map<uint32_t, uint64_t> latest_serials;              // of lanes
std::unordered_map<uint64_t, std::vector<uint64_t>> allocations_at; // serials, by lane and place
uint64_t mistakes;

void mistake(int thread, size_t index, const char *what, uint64_t recorded, uint64_t wanted)
{
    if (++mistakes <= 10)
        printf("thread %d, number %zu: %s: recorded %" PRIx64 ", wanted %" PRIx64 "\n", thread,
               index, what, recorded, wanted);
}

// "@PLACE" is of an object that the lane itself has. One that is unknown is 0:0, which no log
// names.
Object read_object(const char *text, uint32_t lane)
{
    Object object = {lane, latest_serials[lane], 0};
    if (sscanf(text, "@%" SCNu32, &object.place) == 1) return object;
    if (sscanf(text, "%" SCNu32 ":%" SCNu64 "@%" SCNu32, &object.lane, &object.serial,
               &object.place) == 3)
        return object;
    return {0, 0, 0};
}

uint64_t spot(const Object &object)
{
    return static_cast<uint64_t>(object.lane) << 32 | object.place;
}

// When all allocations have been read.
Object resolve(const Object &object)
{
    auto found = allocations_at.find(spot(object));
    if (found == allocations_at.end()) return {0, 0, 0};
    const std::vector<uint64_t> &serials = found->second;
    auto after = std::upper_bound(serials.begin(), serials.end(), object.serial);
    if (after == serials.begin()) return {0, 0, 0};
    return {object.lane, *(after - 1), object.place};
}

bool is_mark(const char *kind, uint64_t size, uint64_t mark)
{
    return strcmp(kind, "malloc") == 0 && size >= mark && size < mark + players.size();
}

void add_allocation(uint32_t lane, const char *kind, uint64_t size, const Object &object)
{
    latest_serials[lane] = object.serial;
    allocations_at[spot(object)].push_back(object.serial);
    auto found = playing.find(lane);
    if (is_mark(kind, size, HANDOFF_BEGIN_BYTES)) {
        int thread = static_cast<int>(size - HANDOFF_BEGIN_BYTES);
        playing[lane] = thread;
        players[thread].lane = lane;
        players[thread].mark = object.serial;
    } else if (found != playing.end() && is_mark(kind, size, HANDOFF_END_BYTES)) {
        players[found->second].complete = true;
        playing.erase(found);
    } else if (found != playing.end()) {
        players[found->second].serials.push_back(object.serial);
        players[found->second].sizes.push_back(size);
    }
}

void add_free(uint32_t lane, const Object &object, bool is_realloc)
{
    auto found = playing.find(lane);
    if (found != playing.end()) players[found->second].frees.push_back({object, is_realloc});
}

// All have been read. The first object that a thread ends is that of its mark.
void resolve_frees(Player *player)
{
    for (Free &freeing : player->frees)
        freeing.object = resolve(freeing.object);
    if (player->frees.empty()) return;
    const Object &first = player->frees.front().object;
    if (first.lane == player->lane && first.serial == player->mark)
        player->frees.erase(player->frees.begin());
}

// One line of a dump: OFFSET L<lane> #<number> KIND OPERANDS, with "-> OBJECT" of an allocation.
void read_line(char *line)
{
    char *words[9];
    size_t count = 0;
    for (char *word = strtok(line, " \n"); word && count < 9; word = strtok(nullptr, " \n"))
        words[count++] = word;
    uint32_t lane;
    if (count < 5 || sscanf(words[1], "L%" SCNu32, &lane) != 1) return;
    const char *kind = words[3];
    char **arrow = std::find_if(words, words + count,
                                [](const char *word) { return strcmp(word, "->") == 0; });
    bool begins = words + count - arrow > 1; // it did not fail
    if (begins && (strcmp(kind, "malloc") == 0 || strcmp(kind, "memalign") == 0)) {
        add_allocation(lane, kind, strtoull(words[4], nullptr, 10), read_object(arrow[1], lane));
    } else if (strcmp(kind, "free") == 0) {
        add_free(lane, read_object(words[4], lane), false);
    } else if (begins && strncmp(kind, "realloc_", 8) == 0) {
        add_free(lane, read_object(words[4], lane), true);
        add_allocation(lane, kind, strtoull(words[5], nullptr, 10), read_object(arrow[1], lane));
    }
}

std::vector<uint64_t> read_log(const std::string &path)
{
    std::vector<uint64_t> log;
    FILE *file = fopen(path.c_str(), "rb");
    if (!file) {
        perror(path.c_str());
        exit(2);
    }
    uint64_t buffer[4096];
    size_t count;
    while ((count = fread(buffer, sizeof *buffer, 4096, file)) > 0)
        log.insert(log.end(), buffer, buffer + count);
    fclose(file);
    return log;
}

void check_allocations(int thread)
{
    const Player &player = players[thread];
    for (size_t i = 0; i < player.sizes.size(); i++) {
        uint64_t wanted = handoff_size(handoff_id(thread, i));
        if (player.sizes[i] != wanted) mistake(thread, i, "size", player.sizes[i], wanted);
    }
}

// The identity of the object that a recorded free names, as the program writes it.
uint64_t id_of(const Free &freeing)
{
    for (size_t thread = 0; thread < players.size(); thread++) {
        const Player &player = players[thread];
        if (player.lane != freeing.object.lane) continue;
        const std::vector<uint64_t> &serials = player.serials;
        auto found = std::lower_bound(serials.begin(), serials.end(), freeing.object.serial);
        if (found == serials.end() || *found != freeing.object.serial) continue;
        return handoff_id(thread, static_cast<uint64_t>(found - serials.begin())) |
               (freeing.is_realloc ? HANDOFF_LOG_REALLOC : 0);
    }
    return ~uint64_t{0};
}

void check_frees(int thread, const std::vector<uint64_t> &log)
{
    const Player &player = players[thread];
    if (player.frees.size() != log.size())
        mistake(thread, 0, "number of objects ended", player.frees.size(), log.size());
    for (size_t i = 0; i < player.frees.size() && i < log.size(); i++)
        if (id_of(player.frees[i]) != log[i])
            mistake(thread, i, "object ended", id_of(player.frees[i]), log[i]);
}

} // namespace

int main(int count, char **words)
{
    if (count != 3) {
        fputs("usage: malloctape dump RAW | handoff_check THREADS LOG\n", stderr);
        return 2;
    }
    players.resize(strtoul(words[1], nullptr, 10));
    char line[512];
    while (fgets(line, sizeof line, stdin))
        read_line(line);
    for (Player &player : players)
        resolve_frees(&player);
    uint64_t allocations = 0;
    uint64_t frees = 0;
    uint64_t foreign = 0;
    for (size_t thread = 0; thread < players.size(); thread++) {
        if (!players[thread].complete) mistake(static_cast<int>(thread), 0, "marks", 0, 1);
        check_allocations(static_cast<int>(thread));
        std::vector<uint64_t> log = read_log(std::string(words[2]) + "." + std::to_string(thread));
        check_frees(static_cast<int>(thread), log);
        allocations += players[thread].sizes.size();
        frees += log.size();
        for (const Free &freeing : players[thread].frees)
            foreign += freeing.object.lane != players[thread].lane;
    }
    printf("%" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64
           " of them of another thread's object: %" PRIu64 " mistakes\n",
           allocations, frees, foreign, mistakes);
    return mistakes != 0 || frees == 0 || allocations != frees;
}
