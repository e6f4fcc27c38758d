# samples - the streams that build.rb can build: name => what it is for, and how.
#
# Names begin with the format. Those of *_bad_* must be refused by every reader; *_cut ends without
# an end.

SAMPLES = {}

def sample(name, &block)
  SAMPLES[name] = block
end

# --- raw streams ---

sample('raw_example') do |checksums| # FORMAT.md 5.6
  raw = RawBuilder.new(checksums)
  raw.records(0) do |r|
    r.thread_begin(4711)
    r.cache_begin
    r.sequence_before(3, 1)
    r.sequence_before(255, 1)
    r.size_class(3, 24)
    r.cached(3, 65, 64)
    first = r.call(:malloc, size: 24)
    r.call(:malloc, size: 20)
    r.call(:free, object: first)
    r.call(:malloc, size: 24)
  end
  raw.finish
end

sample('raw_empty') { |checksums| RawBuilder.new(checksums, metadata: {}).finish }

# Every kind of call, on own, foreign and unknown objects; allocations take places from the cache
# until it is empty.
def every_call(raw, records, address)
  full_cache(records)
  CALLS.each_value do |call|
    at = -> { address[0] += 64 if raw }
    size = call.number * 1000
    case call.shape
    when :ALLOCATION then records.call(call.name, size:, at: at.call)
    when :ALLOCATION_ALIGNED then records.call(call.name, size:, alignment: 64, at: at.call)
    when :HEAP then (0..2).each { |count| records.call(call.name, numbers: [5, 2**64 - 1].first(count)) }
    else every_free(records, call, size, at)
    end
  end
end

# Classes are told in no order.
CLASSES = { 126 => 65_536, 1 => 8, 127 => 2**32 - 1, 40 => 1024, 2 => 15 }.freeze

# A place of the class, in the first block that it has here.
def spot(size_class, index = 0) = (20_608 * size_class) + index

def full_cache(records)
  records.cache_begin
  CLASSES.each do |size_class, bytes|
    records.size_class(size_class, bytes)
    records.cached(size_class, *(0..15).map { |i| spot(size_class, i * 3) }.reverse)
    records.cached(size_class, spot(size_class, 63))
  end
end

def every_free(records, call, size, at)
  own = records.call(:malloc, size: 8, at: at.call)
  foreign = [[7, 1000 + call.number], [7, 900], [7, 900, 2**30], [9, 1, 2**42 - 1], Ended.new(7, 5, spot(1, 50), 1)]
  [own, *foreign, nil, Ended.unknown(2**27 - 1), Ended.unknown(spot(40, 50), 40)].each do |object|
    operands = { object: }
    operands[:size] = size if WITH_SIZE.include?(call.shape)
    operands[:alignment] = 4096 if WITH_ALIGNMENT.include?(call.shape)
    operands[:at] = at.call if call.shape == :REALLOC
    records.call(call.name, **operands)
  end
end

# What is no call.
def every_other(records)
  records.thread_begin(2**32)
  full_cache(records)
  own = records.call(:malloc, size: 0, at: 2**47 - 8)
  records.failed(:malloc, size: 2**62)
  records.failed(:memalign, size: 2**63, alignment: 2**63)
  [own, [7, 5], Ended.new(7, 5, spot(1, 50), 1), nil, Ended.unknown(spot(40, 50), 40)].each do |object|
    records.failed(:realloc_moved, size: 2**64 - 1, object:)
  end
  records.sequence_after(127, 2**40)
  every_list(records)
  records.lost(3, 2)
  records.call(:free, object: own)
  records.sequence_after(127, 2**40 + 1)
  records.thread_cache_deleted
  records.sequence_after(0, 1)
  records.thread_end
end

# Places that come, go, are taken out of turn, and come again.
def every_list(records)
  records.uncached(126, 16)
  records.call(:malloc, size: 60_000, at: 64) # the last one
  records.cached(126, spot(126, 63), 2**27 - 128)
  records.call(:malloc, size: 60_000, at: 0, place: [spot(126, 63), 126]) # the first one
  records.call(:malloc, size: 60_000, at: 8)
  records.call(:malloc, size: 9, at: 16, place: [spot(2), 2]) # the last one: it stays in the list, too
  17.times { |i| records.call(:malloc, size: 9, at: 24 + (i * 16)) }
  records.call(:malloc, size: 2**32 - 1, at: 8)
  records.cache_begin
  records.cached(1, spot(1))
  records.call(:realloc_moved, object: records.call(:malloc, size: 1, at: 8), size: 2, at: 16)
  records.call(:malloc, size: 3, at: 8) # where the moved one had been
end

def raw_everything(checksums, **options)
  raw = RawBuilder.new(checksums, **options)
  address = [2**46]
  raw.tick(10_000_000, 4096, 0)
  raw.records(0) { |r| every_call(raw, r, address) }
  raw.records(300) { |r| every_other(r) }
  raw.tick(20_000_000, 2**40, 2**41)
  raw.records(0, more: true) { |r| every_call(raw, r, address) }
  raw.records(0, key: true) { |r| every_other(r) }
  raw.records(0, more: true) { |r| every_call(raw, r, address) }
  raw
end

sample('raw_everything') { |checksums| raw_everything(checksums).finish(lost: 6, waits: 7, waited: 8) }
sample('raw_addresses') { |checksums| raw_everything(checksums, addresses: true).finish(lost: 6) }
sample('raw_cut') { |checksums| raw_everything(checksums).cut }

# A later minor version: info bits and chunk types that nobody knows yet.
sample('raw_minor') do |checksums|
  raw = RawBuilder.new(checksums, minor: 7, info: 2**63)
  raw.chunk(77, 'whatever')
  raw.records(0) { |r| r.call(:malloc, size: 1) }
  raw.finish
end

# Numbers and packed units in longer forms than a writer may use: malloc(1) at place 5 the long way,
# and its free.
sample('raw_long_numbers') do |checksums|
  raw = RawBuilder.new(checksums)
  units = [0xf001, 0x8001, 0x8000, 0x0000, 0x8005, 0x0000, 0x8000, 0x0000, 0xf015, 0x8005, 0x0000]
  codes = units.map { |unit| [255, unit].pack('Cv') }.join
  raw.chunk(1, [0].pack('Q<') + codes, flags: 7, units: units.size)
  raw.chunk(3, [0, 9, 2, 0, 0, 0, 1, units.size].map { |value| Encode.varint(value) }.join)
  raw.cut
end

# More frees than a list has room for, then allocations that say their places, until the cache is
# known again.
sample('raw_list_end') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) do |r|
    r.cache_begin
    r.size_class(1, 8)
    object = r.call(:malloc, size: 1, place: [64, 1])
    65_536.times { r.call(:free, object:) }
    r.call(:malloc, size: 1, place: [65, 1])
    r.cache_begin
    r.cached(1, 66)
    r.call(:malloc, size: 1)
  end
  raw.finish
end

# Every range of units at its first and last operand and beyond, in several profiles.
PROFILES = [[:free, :delete_sized, :delete_aligned, :malloc, :memalign, :new, :realloc_moved, nil],
            [:delete_sized_aligned, :free, nil, nil, :calloc, :malloc, :realloc_in_place, nil],
            [nil, nil, :free, :aligned_alloc, nil, nil, nil, nil]].freeze

sample('raw_units') do |checksums|
  raw = RawBuilder.new(checksums)
  PROFILES.each do |profile|
    raw.records(0, profile:, packed: false) { |r| every_unit(r, profile) }
    raw.records(0, more: true, packed: true) do |r|
      every_unit(r, profile)
      every_age(r, profile)
    end
  end
  raw.finish
end

def every_unit(records, profile)
  every_size(records, profile[3..5].compact + [:malloc])
  frees = profile[0..2].compact + [:free]
  every_place(records, frees)
  every_way(records, frees)
end

SIZES = [0, 1, 24, 0x7ff, 0x800, 0xfff, 0x1000, 0x1fff, 0x2000, 2**15 - 1, 2**15, 2**32 - 1, 2**32, 2**60,
         2**64 - 1].freeze

# From the cache where a class is large enough, and at a place.
def every_size(records, allocations)
  full_cache(records)
  SIZES.product(allocations).each do |size, name|
    alignment = 32 if Encode.call(name).shape == :ALLOCATION_ALIGNED
    records.call(:free, object: records.call(name, size:, alignment:))
    records.call(name, size:, alignment:, form: :general)
    records.call(name, size:, alignment:, place: [2**27 - 1, 0])
  end
end

# Places of class 0.
def every_place(records, frees)
  [1, 0xfff, 0x1000, 0x9fff, 0xa000, 0xffff, 0x1_0000, 2**26 - 1, 2**26, 2**27 - 1].each do |place|
    object = records.call(:malloc, size: 1, place: [place, 0])
    [nil, :near, :far, :general].each do |form|
      frees.each { |name| records.call(name, object:, form:, **extras(name)) }
      %i[realloc_moved realloc_in_place].each { |name| records.call(name, object:, size: 9, form:) }
    end
  end
end

# Bounds that grow, stay, fall and are too far, of lanes with the same way and with another.
def every_way(records, frees)
  full_cache(records)
  bounds = [[5, 9], [5, 2**41], [5, 1], [6, 3], [5, 7], [13, 1], [5, 7], [5, 7], [13, 2**22], [13, 1], [13, 2**22 + 1]]
  bounds.product([1, 2**23 - 1, 2**23, spot(40, 7)]) do |(lane, bound), place|
    object = Ended.new(lane, bound, place, place == spot(40, 7) ? 40 : 0)
    frees.each { |name| records.call(name, object:, **extras(name)) }
  end
  20.times { records.call(:malloc, size: 1000) }
end

# Objects that were allocated so long ago, near, far, and in lists.
def every_age(records, profile)
  frees = profile[0..2].compact + [:free]
  [1, 0x8000, 2**20].each { |place| 1000.times { |i| records.call(:malloc, size: 1, place: [place + i, 0]) } }
  [1, 2, 12, 13, 48, 49, 0x100, 0x101, 0x200, 0x201, 0x800, 0x801].each do |age|
    frees.each { |name| records.call(name, object: by_age(records, age), **extras(name)) }
    %i[realloc_moved realloc_in_place].each { |name| records.call(name, object: by_age(records, age), size: 9) }
  end
  full_cache(records)
  objects = Array.new(17) { records.call(:malloc, size: 500) }
  objects.each { |object| records.call(:free, object:) }
  objects.each { records.call(:malloc, size: 600) }
end

def by_age(records, age)
  [0, records.allocations + 1 - age]
end

def extras(name)
  call = Encode.call(name)
  extras = {}
  extras[:size] = 300 if WITH_SIZE.include?(call.shape)
  extras[:alignment] = 64 if WITH_ALIGNMENT.include?(call.shape)
  extras
end

# One chunk with units that are not allowed, behind a malloc at place 1; the cache is known, but
# nothing is in it.
def bad_units(checksums, *units, profile: RawBuilder::PROFILE, packed: false)
  raw = RawBuilder.new(checksums)
  raw.records(0, profile:, packed:) do |r|
    r.cache_begin
    r.call(:malloc, size: 1)
    yield r if block_given?
    r.raw(*units)
  end
  raw.finish
end

BAD_UNITS = {
  unit: [0xf300],
  zero: [0],
  range: [0xa001],
  range_zero: [0xa000],
  place_zero: [0xd800, 0],
  way: [0xec00, 1, 128],
  crossing: [0xf103],
  number_size: [0xf001, *([0xffff] * 4), 16, 1, 0],
  general_sequence: [0xf033, 3, 1],
  age_in_plain: [0xf800],
  place_limit: [0xf001, 1, 0x8000, 0x8000, 4, 0], # 2^32
  place_class: [0xf001, 1, 2, 128],
  not_told: [0xf001, 1, 64, 1],
  own_elsewhere: [0x0040],
  own_zero: [0xf015, 0],
  own_limit: [0xf015, 0x8000, 0x8000, 4, 0],
  foreign_itself: [0xf055, 0, 1, 1, 0],
  foreign_lane: [0xf055, 0x8000, 2, 1, 1, 0], # 65 536
  foreign_place: [0xf055, 1, 1, 0, 0],
  foreign_class: [0xf055, 1, 1, 70, 3],
  foreign_and_unknown: [0xf0d5, 0, 0],
  unknown_class: [0xf095, 0, 1],
  bit: [0xf041, 1, 1, 0],
  failed_free: [0xf036, 21, 1],
  failed_own: [0xf036, 18, 64, 1],
  allocation_not_told: [0x8001],
  class_zero: [0xf038, 0, 8],
  class_limit: [0xf038, 128, 8],
  class_bytes: [0xf038, 1, 0],
  class_twice: [0xf038, 1, 8, 0xf038, 1, 9],
  class_same: [0xf038, 1, 8, 0xf038, 2, 8],
  class_too_small: [0xf038, 1, 8, 0xf03a, 1, 1, 64, 0x8009],
  cached_none: [0xf038, 1, 8, 0xf03a, 1, 0],
  cached_many: [0xf038, 1, 8, 0xf03a, 1, 17, *(64..80)],
  cached_zero: [0xf038, 1, 8, 0xf03a, 1, 1, 0],
  cached_below: [0xf038, 1, 8, 0xf03a, 1, 2, 64, 127],
  cached_limit: [0xf038, 1, 8, 0xf03a, 1, 2, 0xffff, 0xffff, 3, 2], # 2^32 - 1 and one more
  cached_not_told: [0xf03a, 1, 1, 64],
  cached_class: [0xf038, 1, 8, 0xf03a, 1, 1, 63], # a block of class 0
  uncached_none: [0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf03b, 1, 0],
  uncached_not_told: [0xf03b, 1, 1],
  other_class: [0xf038, 1, 8, 0xf038, 2, 16, 0xf03a, 1, 1, 64, 0xf001, 9, 65, 2],
  known_no_more: [0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf032, 0x8008],
  lost_cache: [0xf038, 1, 8, 0xf03a, 1, 1, 64, 0xf035, 0, 0, 0x8008]
}.freeze

BAD_UNITS.each { |name, units| sample("raw_bad_#{name}") { |checksums| bad_units(checksums, *units) } }

sample('raw_bad_profile') { |checksums| bad_units(checksums, profile: [:malloc] + ([nil] * 7)) }
sample('raw_bad_profile_end') { |checksums| bad_units(checksums, profile: ([nil] * 7) + [:free]) }
sample('raw_bad_age') { |checksums| bad_units(checksums, 0xf801, packed: true) }
sample('raw_bad_age_lost') { |checksums| bad_units(checksums, 0xf800, packed: true) { |r| r.lost(1, 1) } }
sample('raw_bad_age_range') { |checksums| bad_units(checksums, 0xf400, packed: true) }
sample('raw_bad_age_unit') { |checksums| bad_units(checksums, 0xf3ff, packed: true) }

# The age of an object that was allocated where nobody knows.
sample('raw_bad_age_place') do |checksums|
  bad_units(checksums, 0xf800, packed: true) { |r| r.call(:realloc_in_place, object: nil, size: 1) }
end

sample('raw_bad_packed') do |checksums| # a byte too many
  raw = RawBuilder.new(checksums)
  raw.chunk(1, [0].pack('Q<') + [0xff, 0x31, 0xf0, 1].pack('C*'), flags: 7, units: 1)
  raw.finish
end

sample('raw_bad_packed_few') do |checksums| # no unit stands for three
  raw = RawBuilder.new(checksums)
  raw.chunk(1, [0].pack('Q<') + [0xff, 0x31, 0xf0].pack('C*'), flags: 7, units: 3)
  raw.finish
end

sample('raw_bad_cache') do |checksums| # which is not known
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.raw(0x8001) }
  raw.finish
end

sample('raw_bad_first_run') do |checksums| # which is not key
  raw = RawBuilder.new(checksums)
  raw.records(0, key: false) { |r| r.call(:malloc, size: 1) }
  raw.finish
end

sample('raw_bad_allocations') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.raw(0xf001, 1, 1, 0) } # counted by nobody
  raw.records(0) { |r| r.raw(0xf001, 1, 2, 0, allocations: 1) }
  raw.records(0) { |r| r.raw(0xf001, 1, 3, 0) }
  raw.finish
end

sample('raw_bad_number') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.other(47) }
  raw.finish
end

sample('raw_bad_structure') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.sequence_before(128, 1) }
  raw.finish
end

sample('raw_bad_rest') do |checksums| # a byte too many
  raw = RawBuilder.new(checksums)
  raw.chunk(1, [0].pack('Q<') + [0x31, 0xf0, 0].pack('C*'), flags: 3, units: 1)
  raw.finish
end

sample('raw_bad_feature') { |checksums| RawBuilder.new(checksums, features: 4).finish }

sample('raw_bad_checksum') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.call(:malloc, size: 24) }
  stream = raw.finish
  stream[-1] = [stream[-1].getbyte(0) ^ 2].pack('C')
  stream
end

# The end chunk counts one malloc more than there is.
sample('raw_bad_totals') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) { |r| r.call(:malloc, size: 24) }
  raw.finish(events: 2)
end

# --- instruction streams ---

sample('instructions_example') do |checksums| # INSTRUCTIONS.md 5.4
  out = InstructionBuilder.new(checksums)
  out.lane(3)
  first = out.call(:malloc, size: 24)
  out.call(:calloc, size: 300)
  out.call(:free, register: first)
  out.finish
end

sample('instructions_empty') { |checksums| InstructionBuilder.new(checksums, metadata: {}).finish }

# Every kind of call, failed and unknown ones included.
def every_instruction(out, place)
  CALLS.each_value do |call|
    operands = {}
    operands[:size] = call.number * 1000 if WITH_SIZE.include?(call.shape)
    operands[:alignment] = 128 if WITH_ALIGNMENT.include?(call.shape)
    at = -> { place[0] += 48 }
    case call.shape
    when :ALLOCATION, :ALLOCATION_ALIGNED
      out.call(call.name, **operands, at: at.call)
      out.call(call.name, **operands, failed: true)
    when :HEAP then (0..2).each { |count| out.call(call.name, numbers: [5, 2**64 - 1].first(count)) }
    when :REALLOC then every_realloc(out, call, operands, at)
    else
      out.call(call.name, **operands, register: out.call(:malloc, size: 8, at: at.call))
      out.call(call.name, **operands)
    end
  end
end

def every_realloc(out, call, operands, at)
  register = out.call(:malloc, size: 8, at: at.call)
  out.call(call.name, **operands, register:, at: at.call)
  out.call(call.name, **operands, at: at.call)
  return if call.name != 'realloc_moved' # a failed realloc has that number

  out.call(call.name, **operands, register:, failed: true)
  out.call(call.name, **operands, failed: true)
end

def instructions_everything(checksums, **options)
  out = InstructionBuilder.new(checksums, **options)
  place = [2**46]
  out.thread_begin(2**32)
  every_instruction(out, place)
  out.tick(10_000_000, 4096, 0)
  out.end_block
  out.lane(65_535)
  every_instruction(out, place)
  out.lost(7, 3)
  out.freed_twice
  out.call(:free)
  out.thread_cache_deleted
  out.thread_end
  out
end

sample('instructions_everything') { |checksums| instructions_everything(checksums).finish }
sample('instructions_addresses') { |checksums| instructions_everything(checksums, addresses: true).finish }
sample('instructions_cut') { |checksums| instructions_everything(checksums).cut }

sample('instructions_minor') do |checksums|
  out = InstructionBuilder.new(checksums, minor: 3, info: 2**63)
  out.call(:malloc, size: 1)
  out.finish
end

sample('instructions_bad_number') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.other(55)
  out.finish
end

# A free and a realloc of an object that had been freed already (INSTRUCTIONS.md 5.3).
sample('instructions_freed_twice') do |checksums|
  out = InstructionBuilder.new(checksums)
  first = out.call(:malloc, size: 10)
  out.call(:free, register: first)
  out.freed_twice
  out.call(:delete_sized, size: 10)
  out.freed_twice
  out.call(:realloc_moved, size: 20)
  out.finish
end

sample('instructions_bad_register') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.call(:free, register: 0)
  out.finish
end

sample('instructions_bad_feature') { |checksums| InstructionBuilder.new(checksums, features: 2).finish }
sample('instructions_bad_value') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.other(50, value: 1)
  out.finish
end

%w[live_bytes peak].each do |what|
  sample("instructions_bad_#{what}") do |checksums|
    out = InstructionBuilder.new(checksums)
    out.call(:malloc, size: 24)
    out.send("misstate_#{what}")
    out.finish
  end
end

sample('instructions_bad_tick') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.call(:malloc, size: 24)
  out.other(52, 1, 2, 3, 25)
  out.finish
end

# Values on both sides of what fits into the columns (INSTRUCTIONS.md 4.4).
sample('instructions_values') do |checksums|
  out = InstructionBuilder.new(checksums)
  [0, 254, 255, 256, 65_534, 65_535, 65_536, 2**32 - 2, 2**32 - 1, 2**40].each { |size| out.call(:malloc, size:) }
  out.end_block
  registers = Array.new(300) { |i| out.call(:malloc, size: { 7 => 65_535, 20 => 70_000 }.fetch(i, 250 + i)) }
  out.end_block
  [3, 290, 45, 44, 299].each { |i| out.call(:free, register: registers[i]) }
  out.call(:realloc_moved, register: registers[100], size: 1)
  out.finish
end

# Columns that do not match (INSTRUCTIONS.md 4.3), of one thread_end: too short, something behind
# them.
{ short: '', rest: 'x', operands: "\x01" }.each do |what, behind|
  sample("instructions_bad_#{what}") do |checksums|
    out = InstructionBuilder.new(checksums)
    columns = what == :short ? "\x32\0" : "\x32\0\0"
    out.block([0, 0, what == :operands ? 1 : 0].map { |number| Encode.varint(number) }.join + columns + behind, 1)
    out.finish
  end
end

sample('instructions_bad_live') { |checksums| InstructionBuilder.new(checksums).finish(live: 1) }

# --- a recording of two lanes, and orders of it, right and wrong ---

# Objects in the comments are those of the steps below; class 3 is entered in the order a2, b2, a4,
# b4, b6.
sample('verify_raw') do |checksums|
  raw = RawBuilder.new(checksums)
  verify_first_window(raw)
  raw.tick(10_000_000, 4096, 0)
  raw.records(0) { |r| r.call(:delete_sized, object: [1, 1, 2], size: 48) } # a5
  raw.records(1) do |r|
    r.sequence_before(3, 4)
    r.cached(2, 131)
    r.call(:memalign, size: 96, alignment: 32) # b4
    r.call(:free, object: nil) # b5
    r.thread_cache_deleted # b6
    r.sequence_after(3, 5)
    r.thread_end # b7
  end
  raw.tick(20_000_000, 8192, 0)
  raw.tick(30_000_000, 8192, 0)
  raw.records(0) { |r| r.failed(:malloc, size: 2**62) } # a6
  raw.finish
end

def verify_first_window(raw)
  raw.records(0) do |r|
    r.thread_begin(11) # a1
    r.cache_begin
    r.sequence_before(3, 1)
    r.sequence_before(255, 1)
    r.size_class(1, 48)
    r.cached(1, 64, 65, 66)
    r.call(:malloc, size: 24) # a2
    r.call(:malloc, size: 25) # a3
    r.call(:free, object: [0, 2]) # a4
    r.sequence_after(3, 3)
  end
  raw.records(1) do |r|
    r.thread_begin(12) # b1
    r.cache_begin
    r.sequence_before(3, 2)
    r.size_class(1, 48)
    r.size_class(2, 96)
    r.cached(1, 70, 71)
    r.cached(2, 130)
    r.call(:new, size: 48) # b2
    r.call(:realloc_moved, object: [0, 1], size: 72) # b3
  end
end

STEPS = {
  a1: [0, ->(o, _) { o.thread_begin(11) }],
  a2: [0, ->(o, r) { r[:a2] = o.call(:malloc, size: 24) }],
  a3: [0, ->(o, r) { r[:a3] = o.call(:malloc, size: 25) }],
  a4: [0, ->(o, r) { o.call(:free, register: r[:a3]) }],
  a5: [0, ->(o, r) { o.call(:delete_sized, register: r[:b2], size: 48) }],
  a6: [0, ->(o, _) { o.call(:malloc, size: 2**62, failed: true) }],
  b1: [1, ->(o, _) { o.thread_begin(12) }],
  b2: [1, ->(o, r) { r[:b2] = o.call(:new, size: 48) }],
  b3: [1, ->(o, r) { o.call(:realloc_moved, register: r[:a2], size: 72) }],
  b4: [1, ->(o, _) { o.call(:memalign, size: 96, alignment: 32) }],
  b5: [1, ->(o, _) { o.call(:free) }],
  b6: [1, ->(o, _) { o.thread_cache_deleted }],
  b7: [1, ->(o, _) { o.thread_end }],
  t1: [nil, ->(o, _) { o.tick(10_000_000, 4096, 0) }],
  t2: [nil, ->(o, _) { o.tick(10_000_000, 8192, 0) }],
  t3: [nil, ->(o, _) { o.tick(10_000_000, 8192, 0) }],
  # Wrong ones.
  a3_size: [0, ->(o, r) { r[:a3] = o.call(:malloc, size: 26) }],
  a3_kind: [0, ->(o, r) { r[:a3] = o.call(:calloc, size: 25) }],
  a4_object: [0, ->(o, r) { o.call(:free, register: r[:a2]) }],
  a4_unknown: [0, ->(o, _) { o.call(:free) }],
  a6_made: [0, ->(o, _) { o.call(:malloc, size: 2**62) }],
  b4_alignment: [1, ->(o, _) { o.call(:memalign, size: 96, alignment: 64) }],
  t2_late: [nil, ->(o, _) { o.tick(10_000_001, 8192, 0) }]
}.freeze

def ordered(checksums, steps)
  out = InstructionBuilder.new(checksums)
  registers = {}
  current = 0
  steps.split.each do |name|
    lane, step = STEPS.fetch(name.to_sym)
    out.lane(current = lane) if lane && lane != current
    step.call(out, registers)
  end
  out.finish
end

{
  'verify_good' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6',
  'verify_good_windows' => 'a1 a2 a3 b1 b2 b3 a4 a5 b4 t1 b5 t2 b6 b7 t3 a6', # one early, one late
  'verify_good_overlap' => 'a1 b1 b2 a2 a3 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6', # b2 within a2
  'verify_bad_missing' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3',
  'verify_bad_skipped' => 'a1 a2 a3 b1 b2 b3 a4 t1 b5 b6 b7 a5 t2 t3 a6',
  'verify_bad_twice' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6 a6',
  'verify_bad_size' => 'a1 a2 a3_size b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6',
  'verify_bad_kind' => 'a1 a2 a3_kind b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6',
  'verify_bad_alignment' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4_alignment b5 b6 b7 a5 t2 t3 a6',
  'verify_bad_outcome' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 t3 a6_made',
  'verify_bad_bound' => 'a1 a2 a3 b1 b2 a4 a5 b3 t1 b4 b5 b6 b7 t2 t3 a6', # a5 came after b3
  'verify_bad_object' => 'a1 a2 a3 b1 b2 a4_object t1 t2 t3',
  'verify_bad_unknown' => 'a1 a2 a3 b1 b2 b3 a4_unknown t1 b4 b5 b6 b7 a5 t2 t3 a6',
  'verify_bad_number' => 'a1 a2 a3 b1 b2 b3 t1 b4 a4 b5 b6 b7 a5 t2 t3 a6',
  'verify_good_unit' => 'a1 a2 a3 b1 a4 b2 b3 t1 b4 b5 b6 b7 a5 t2 t3 a6', # a4 before b2, its number after b2's
  'verify_bad_late' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 t2 t3 a5 a6',
  'verify_bad_early' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 a6 t2 t3',
  'verify_bad_tick' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2_late t3 a6',
  'verify_bad_ticks' => 'a1 a2 a3 b1 b2 b3 a4 t1 b4 b5 b6 b7 a5 t2 a6'
}.each { |name, steps| sample(name) { |checksums| ordered(checksums, steps) } }

# Two calls that entered two structures and overtook each other in between: no order of whole calls
# is right.
sample('verify_interleaved_raw') do |checksums|
  raw = RawBuilder.new(checksums)
  [[0, [[3, 1], [255, 2]]], [1, [[255, 1], [3, 2]]]].each do |lane, sequences|
    raw.records(lane) do |r|
      sequences.each { |structure, number| r.sequence_before(structure, number) }
      r.call(:malloc, size: 24)
    end
  end
  raw.finish
end

sample('verify_interleaved_order') do |checksums|
  out = InstructionBuilder.new(checksums)
  [1, 0].each do |lane|
    out.lane(lane)
    out.call(:malloc, size: 24)
  end
  out.finish
end

# What a thread off its processor writes windows later, and another thread waits for: a sequence
# number, an object.
sample('verify_waits_raw') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(1) do |r|
    r.sequence_before(3, 2)
    r.call(:malloc, size: 1)
    r.call(:free, object: Ended.new(0, 1, 5, 0))
  end
  3.times { |i| raw.tick((i + 1) * 10_000_000, 4096, 0) }
  raw.records(0) do |r|
    r.sequence_before(3, 1)
    r.call(:malloc, size: 2, place: [5, 0])
  end
  raw.finish
end

{ 'verify_forced_early' => [0, 3], 'verify_forced_late' => [3, 0] }.each do |name, (before, behind)|
  sample(name) do |checksums|
    out = InstructionBuilder.new(checksums)
    before.times { out.tick(10_000_000, 4096, 0) }
    out.lane(0)
    object = out.call(:malloc, size: 2)
    out.lane(1)
    out.call(:malloc, size: 1)
    out.call(:free, register: object)
    behind.times { out.tick(10_000_000, 4096, 0) }
    out.finish
  end
end

# A recording that is wrong: a place where this lane has made no object.
sample('verify_place_raw') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) do |r|
    r.cache_begin
    r.size_class(1, 24)
    r.cached(1, 64, 65)
    r.call(:malloc, size: 24)
    r.call(:free, object: Ended.new(0, nil, 65))
  end
  raw.finish
end

sample('verify_place_order') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.call(:free, register: out.call(:malloc, size: 24))
  out.finish
end

# What the end of a recording may lack: an allocation and a number; and losses in the middle.
sample('verify_lacking_raw') do |checksums|
  raw = RawBuilder.new(checksums)
  raw.records(0) do |r|
    r.call(:malloc, size: 1)
    r.lost(5, 2)
    r.call(:free, object: [0, 2])
  end
  raw.records(1) do |r|
    r.call(:free, object: [0, 7]) # not allocated in the recording
    r.sequence_after(3, 2) # nobody has number 1
  end
  raw.finish(lost: 5)
end

sample('verify_lacking_order') do |checksums|
  out = InstructionBuilder.new(checksums)
  out.call(:malloc, size: 1)
  out.lost(0, 5)
  out.call(:free)
  out.lane(1)
  out.call(:free)
  out.finish
end
