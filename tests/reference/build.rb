#!/usr/bin/env ruby
# build - writes a sample stream by hand, from the format documents, to the standard output.
#
#   build.rb --checksums PROGRAM SAMPLE     PROGRAM is tests/tools/checksums
#   build.rb --list                         the names of the samples
#
# The streams are plain; tests that want LZ4 pipe them through lz4. What each sample is for stands
# in samples.rb.
require_relative 'basics'

module Encode
  module_function

  def varint(value)
    length = [(value.bit_length + 6) / 7, 1].max
    return [0, value].pack('CQ<') if length > 8

    [((value << 1) | 1) << (length - 1)].pack('Q<').byteslice(0, length)
  end

  def zigzag(value)
    value.negative? ? (-value * 2) - 1 : value * 2
  end

  def svarint(value)
    varint(zigzag(value))
  end

  def metadata(keys)
    keys.map { |key, value| "#{key}=#{value}\n" }.join
  end

  def call(name)
    CALLS.values.find { |call| call.name == name.to_s } || raise("no call #{name}")
  end
end

# XXH3 by way of a child process: a message is its length and its bytes, an answer is four bytes.
class Checksums
  def initialize(program)
    @child = IO.popen([program], 'r+b')
  end

  def of(bytes)
    @child.write([bytes.bytesize].pack('V'), bytes)
    @child.flush
    @child.read(4)
  end
end

# The objects of all lanes: where they are, and the size class of each block of places (FORMAT.md
# 2.5).
class BuiltHeap
  def initialize
    @places = {} # of objects: [lane, serial]
    @classes = Hash.new(0) # by the quotient of the place by 64
    @next_place = 0
  end

  # A place that no other object ever has, of class 0: samples that choose places do not use the
  # lowest ones.
  def new_place = @next_place += 1

  # Of an object that nobody has made yet, too.
  def place(object) = @places[object] ||= new_place

  def bear(object, place)
    @places[object] = place
  end

  def note(place, size_class)
    @classes[place / 64] = size_class
  end

  def size_class(place) = @classes[place / 64]
end

# An object that ends, as a record names it: by its place; of another lane by that lane, a bound and
# the class as well; of nobody (lane nil) by place and class or not at all. `serial` is known of
# objects that are named by it.
Ended = Struct.new(:lane, :bound, :place, :size_class, :serial) do
  def self.unknown(place = 0, size_class = 0) = new(nil, nil, place, size_class)
end

# What a lane has had, and what its present run remembers.
class BuiltLane
  attr_reader :number, :sequences, :profile, :ways, :lists, :classes
  attr_accessor :units, :allocations, :chunks, :runs, :run_allocation, :address, :packed_from, :known

  def initialize(number)
    @number = number
    @units = @allocations = @chunks = @runs = @packed_from = 0
    @sequences = Hash.new(0)
    @classes = {} # their bytes
    forget_cache(false)
  end

  # The profile is names of calls, nil for ranges that are not used.
  def begin_run(profile, key)
    @profile = profile.map { |name| name ? Encode.call(name).number : 0 }
    @sequences.clear if key
    @ways = Array.new(8)
    @address = 0
    @run_allocation = @allocations
    @runs += 1
  end

  # The cache is empty from here on, and known or not (2.6). The last place of a list is the first
  # one.
  def forget_cache(known)
    @known = known
    @lists = Hash.new { |lists, size_class| lists[size_class] = [] }
  end

  # The list that an allocation which says no place takes from.
  def list(size)
    size_class, = @classes.select { |_, bytes| bytes >= size }.min_by(&:last)
    @lists[size_class] if size_class
  end
end

# The units of one chunk, FORMAT.md 5. Objects that end are named [lane, serial] or [lane, serial,
# bound], or by an Ended, or are nil: the unknown one; a bound that is not given is the object's own
# serial. Records whose kind is in the profile get a unit of their own where there is one, the
# others a general one; in packed chunks objects are named by their age where that is allowed. An
# allocation takes its place from the cache if there is one, or has a place of its own.
class RawRecords
  attr_reader :units, :events, :slot_units

  # 5.2 by place in the profile: the unit of place 0 and the first place that is too large, of the
  # form of one unit and of two; 5.5 the unit of age 0 and the greatest age.
  FREES_AND_REALLOC = {
    0 => { near: [0, 0xa000], far: [0xd800, 1 << 27], aged: [0xf7ff, 0x800] },
    1 => { near: [0xb000, 0x1000], far: [0xe000, 1 << 26], aged: [0xf3ff, 0x200] },
    2 => { far: [0xe400, 1 << 26], aged: [0xf5ff, 0x100] },
    6 => { far: [0xe800, 1 << 26], aged: [0xf6ff, 0x100] }
  }.freeze

  # 5.2 by place in the profile: the unit of size 0, and the first size that is too large.
  SIZES = { 3 => [0xa000, 0x1000], 4 => [0xc000, 0x1000], 5 => [0xd000, 0x800] }.freeze

  def initialize(lane, heap, addresses:, packed:)
    @lane = lane
    @heap = heap
    @addresses = addresses
    @packed = packed
    @units = []
    @events = @slot_units = 0
  end

  # The name of the object that an allocation makes; of a free nothing of interest. `place` is where
  # an object begins, with its class: [place, class]. `form`: :general, or :far for a place that one
  # unit could say, or :near for no age.
  def call(name, object: nil, size: nil, alignment: nil, at: nil, numbers: nil, place: nil, form: nil)
    call = Encode.call(name)
    @events += 1
    ended = ended(object) if ends?(call)
    stays = call.name == 'realloc_in_place'
    place ||= own_place(size) if begins?(call) && !stays
    if short(call, ended, size, place, form)
      number(size) if size && !ALLOCATIONS.include?(call.shape)
      says_place = call.shape == :REALLOC
    else
      long(call, ended, size, numbers)
      says_place = begins?(call)
    end
    number(alignment) if alignment
    put_place(place) if says_place && !stays
    put_address(at) if begins?(call) && @addresses
    begins?(call) ? allocation(size, stays ? [ended.place, nil] : place, ended, stays) : give_back(ended)
  end

  def failed(name, size:, object: nil, alignment: nil)
    call = Encode.call(name)
    @events += 1
    ended = ended(object) if ends?(call)
    general(54, object_bits(ended))
    number(call.number)
    put_object(ended)
    number(size)
    number(alignment) if alignment
  end

  def allocations = @lane.allocations

  def thread_end = other(49)
  def sequence_before(structure, number) = sequence(0xf100, structure, number)
  def sequence_after(structure, number) = sequence(0xf200, structure, number)

  def thread_begin(id)
    other(48, id)
    @lane.forget_cache(false)
  end

  def thread_cache_deleted
    other(50)
    @lane.forget_cache(false)
  end

  def lost(events, allocations)
    other(53, events, allocations)
    @lane.allocations += allocations
    @lane.forget_cache(false)
  end

  def size_class(size_class, bytes)
    other(56, size_class, bytes)
    @lane.classes[size_class] = bytes
  end

  def cache_begin
    other(57)
    @lane.forget_cache(true)
  end

  # Behind those of the list, the first of them first.
  def cached(size_class, *places)
    differences = places.each_cons(2).map { |before, place| Encode.zigzag(place - before) }
    other(58, size_class, places.size, places[0], *differences)
    places.each { |place| @heap.note(place, size_class) }
    @lane.lists[size_class].unshift(*places.reverse)
  end

  # The first ones of the list.
  def uncached(size_class, count)
    other(59, size_class, count)
    @lane.lists[size_class].pop(count)
  end

  # Operands that the document may forbid.
  def other(number, *operands)
    general(number, 0)
    operands.each { |operand| number(operand) }
  end

  # Any units; they begin so many objects.
  def raw(*units, allocations: 0)
    units.each { |unit| put(unit) }
    @lane.allocations += allocations
  end

  private

  def ends?(call)
    call.shape == :REALLOC || FREES.include?(call.shape)
  end

  def begins?(call)
    call.shape == :REALLOC || ALLOCATIONS.include?(call.shape)
  end

  def ended(object)
    return object || Ended.unknown unless object.is_a?(Array)

    lane, serial, bound = object
    place = @heap.place([lane, serial])
    Ended.new(lane, bound || serial, place, @heap.size_class(place), serial)
  end

  # Nil: the first of the list.
  def own_place(size)
    [@heap.new_place, 0] unless @lane.known && @lane.list(size)&.any?
  end

  # --- codes ---

  # A unit, which stands for so many in the slot.
  def put(unit, slot_units = 1)
    @units << unit
    @slot_units += slot_units
  end

  def short(call, ended, size, place, form)
    range = @lane.profile.index(call.number)
    return if range.nil? || form == :general
    return short_size(range, size, place) unless ended
    return again(ended) if range.zero? && ended.lane && ended.lane != @lane.number

    short_place(FREES_AND_REALLOC.fetch(range), ended, form) if ended.lane
  end

  def short_size(range, size, place)
    base, limit = SIZES[range]
    return if base.nil? || place || size >= limit

    put(base + size)
    true
  end

  # One unit or two for the place, or one for the age that stands for them.
  def short_place(forms, ended, form)
    return if ended.lane != @lane.number

    near = form != :far && forms.key?(:near) && ended.place < forms[:near][1]
    base, limit = forms[near ? :near : :far]
    return if ended.place >= limit

    units = near ? [base + ended.place] : [base + (ended.place >> 16), ended.place & 0xffff]
    (form.nil? && put_age(forms[:aged], ended, units.size)) || units.each { |unit| put(unit) }
    true
  end

  # 5.5 All chunks since the allocation are packed.
  def put_age((base, greatest), ended, slot_units)
    return unless @packed && ended.serial && ended.serial > @lane.packed_from

    age = @lane.allocations + 1 - ended.serial
    return unless age.between?(1, greatest)

    put(base + age, slot_units)
    true
  end

  # Free 1 of an object of the lane that is remembered in its way.
  def again(ended)
    way = ended.lane % 8
    lane, bound = @lane.ways[way]
    return unless lane == ended.lane && ended.bound >= bound && ended.place < 1 << 23

    put(0xec00 + (way << 7) + (ended.place >> 16))
    put(ended.place & 0xffff)
    number(((ended.bound - bound) * 128) + ended.size_class)
    @lane.ways[way] = [lane, ended.bound]
    true
  end

  def long(call, ended, size, numbers)
    general(call.number, object_bits(ended))
    put_object(ended)
    number(size) if size
    ([numbers.size] + numbers).each { |one| number(one) } if numbers
  end

  def general(number, bits)
    put(0xf000 + number + (bits << 6))
  end

  def number(value)
    while value > 0x7fff
      put(0x8000 | (value & 0x7fff))
      value >>= 15
    end
    put(value)
  end

  def object_bits(ended)
    return 0 unless ended
    return 2 unless ended.lane

    ended.lane == @lane.number ? 0 : 1
  end

  def put_object(ended)
    return unless ended

    if object_bits(ended) == 1
      number(ended.lane)
      number(ended.bound)
      @lane.ways[ended.lane % 8] = [ended.lane, ended.bound]
    end
    number(ended.place)
    number(ended.size_class) unless ended.lane == @lane.number
  end

  def put_place(place)
    return number(0) unless place

    place.each { |one| number(one) }
  end

  def put_address(at)
    number(Encode.zigzag((at - @lane.address) / 8))
    @lane.address = at
  end

  def sequence(base, structure, value)
    put(base + structure)
    number(value - @lane.sequences[structure])
    @lane.sequences[structure] = value
  end

  # --- what calls do to the cache (2.6) ---

  # A moved realloc takes its place before it gives one back.
  def allocation(size, (place, size_class), ended, stays)
    @heap.note(place, size_class) if size_class
    place ||= @lane.list(size).pop
    list = @lane.lists[@heap.size_class(place)]
    list.pop if size_class && list.last == place
    @lane.allocations += 1
    name = [@lane.number, @lane.allocations]
    @heap.bear(name, place)
    give_back(ended) unless stays
    name
  end

  def give_back(ended)
    return if ended.nil? || ended.place.zero?

    @heap.note(ended.place, ended.size_class) if ended.size_class && ended.lane != @lane.number
    size_class = @heap.size_class(ended.place)
    @lane.lists[size_class].push(ended.place) if @lane.known && size_class.positive?
  end
end

# A raw stream, FORMAT.md 4.
class RawBuilder
  include Encode

  METADATA = { program: '/usr/bin/sample', allocator: 'gperftools 2.10' }.freeze

  def initialize(checksums, metadata: METADATA, addresses: false, minor: 0, features: nil, info: 0)
    @checksums = checksums
    @addresses = addresses
    @lanes = Hash.new { |lanes, number| lanes[number] = BuiltLane.new(number) }
    @heap = BuiltHeap.new
    @ticks = @events = 0
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPERAW'.b + [4, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<') +
            (0..15).to_a.pack('C*') + [1_700_000_000_123_456_789, 4711].pack('Q<V')
    @stream << fixed << @checksums.of(fixed + text) << text
  end

  PROFILE = [:free, nil, nil, :malloc, nil, nil, :realloc_moved, nil].freeze

  # One chunk; it begins a run unless it is `more` of the present one. Every other one of a lane is
  # packed. Yields a RawRecords. Returns what the block returns.
  def records(number, more: false, key: nil, packed: nil, profile: PROFILE)
    lane = @lanes[number]
    key = !more && (lane.runs % 16).zero? if key.nil?
    packed = lane.chunks.odd? if packed.nil?
    lane.begin_run(profile, key) unless more
    records = RawRecords.new(lane, @heap, addresses: @addresses, packed:)
    result = yield records
    @events += records.events
    lane.packed_from = lane.allocations unless packed
    flags = (more ? 0 : 1) + (key ? 2 : 0) + (packed ? 4 : 0)
    head = more ? '' : lane.profile.pack('C8')
    units(lane, head + (packed ? pack(records.units) : records.units.pack('v*')), records.slot_units, flags)
    result
  end

  def tick(nanoseconds, rss, heap)
    chunk(2, [nanoseconds, rss, heap].map { |value| varint(value) }.join, first: @ticks)
    @ticks += 1
  end

  def finish(status: 0, nanoseconds: 50_000_000, events: @events, lost: 0, waits: 0, waited: 0)
    last = @lanes.keys.max || -1
    values = [status, nanoseconds, events, lost, waits, waited, last + 1]
    (0..last).each { |lane| values << @lanes[lane].units }
    chunk(3, values.map { |value| varint(value) }.join)
    @stream
  end

  def cut
    @stream
  end

  # One chunk with any content.
  def chunk(type, payload, flags: 0, lane: 0, units: 0, first: 0, allocation: 0)
    fixed = 'MTRC'.b + [type, flags, lane, payload.bytesize, units, first, allocation].pack('CCvVVQ<Q<')
    @stream << fixed << @checksums.of(fixed + payload) << payload
  end

  private

  def units(lane, payload, count, flags)
    chunk(1, payload, flags:, lane: lane.number, units: count, first: lane.units, allocation: lane.run_allocation)
    lane.units += count
    lane.chunks += 1
  end

  # 5.5 Packed units, as short as they go.
  def pack(units)
    units.map { |unit| pack_one(unit) }.join
  end

  def pack_one(unit)
    short = packed_in_one(unit)
    return [short].pack('C') if short
    return [243, unit].pack('CC') if unit < 256
    return [unit].pack('n') if unit.between?(0x8000, 0xfeff) && unit >> 8 != 243

    [255, unit].pack('Cv')
  end

  def packed_in_one(unit)
    case unit
    when 0xf800...0xf830 then unit - 0xf800
    when 0xa000...0xa160 then 48 + ((unit - 0xa000) / 8) if (unit % 8).zero?
    when 0xf400...0xf40c then 92 + unit - 0xf400
    when 0xc000...0xc0c0 then 104 + ((unit - 0xc000) / 8) if (unit % 8).zero?
    end
  end
end

# An instruction stream. It keeps the order of registers, so that allocations can tell their
# register.
class InstructionBuilder
  include Encode

  METADATA = { run: '000102030405060708090a0b0c0d0e0f', program: '/usr/bin/sample', pid: 4711,
               allocator: 'gperftools 2.10', start: 1_700_000_000 }.freeze

  def initialize(checksums, metadata: METADATA, addresses: false, minor: 0, features: nil, info: 0)
    @checksums = checksums
    @addresses = addresses
    @order = []
    @sizes_by_register = {}
    @high = @live = @live_bytes = @threads = @lost = @freed_twice = 0
    @counts = Hash.new(0)
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPEINS'.b + [4, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<')
    @stream << fixed << @checksums.of(fixed + text) << text
    new_block
  end

  # A call; `register` nil: of an unknown object. Returns the register of the object that began.
  def call(name, register: nil, size: nil, alignment: nil, numbers: nil, failed: false, at: nil)
    call = Encode.call(name)
    allocations = ALLOCATIONS.include?(call.shape)
    frees = FREES.include?(call.shape)
    unknown = (frees || call.shape == :REALLOC) && register.nil?
    @counts[call.number] += 1
    opcode(call.number | (failed ? 0x40 : 0) | (unknown ? 0x80 : 0), allocations ? size : place(register))
    @operands << varint(size) if size && !allocations
    @operands << varint(alignment) if alignment
    @operands << ([numbers.size] + numbers).map { |number| varint(number) }.join if numbers
    return freeing(register) if frees

    put_address(at) if @addresses && at
    return if failed || call.shape == :HEAP

    (allocations || unknown ? allocation : register).tap { |brought| count_bytes(brought, size) }
  end

  def lane(number) = other(48, number)
  def thread_end = other(50)
  def thread_cache_deleted = other(51)
  def tick(nanoseconds, rss, heap) = other(52, nanoseconds, rss, heap, @live_bytes)

  # A wrong statement from here on.
  def misstate_live_bytes = @live_bytes += 1
  def misstate_peak = @peak += 1

  def thread_begin(id)
    @threads += 1
    other(49, id)
  end

  def lost(lane, events)
    @lost += events
    other(53, lane, events)
  end

  def freed_twice
    @freed_twice += 1
    other(54)
  end

  # Bytes that the document may forbid.
  def other(number, *operands, value: 0)
    opcode(number, value)
    operands.each { |operand| @operands << varint(operand) }
  end

  def end_block
    return if @opcodes.empty?

    head = [@live_bytes % (2**64), @peak, @operands.bytesize].map { |number| varint(number) }.join
    block(head + @opcodes + @low + @above + @operands + @places, @opcodes.bytesize)
    new_block
  end

  # One block with any content.
  def block(payload, count)
    fixed = 'MTBI'.b + [payload.bytesize, count].pack('VV')
    @stream << fixed << @checksums.of(fixed + payload) << payload
  end

  def finish(status: 0, live: @live, high: @high, threads: @threads, lost: @lost, twice: @freed_twice, counts: @counts)
    end_block
    values = [status, live, high, threads, lost, twice, counts.size] + counts.sort.flatten
    block(values.map { |value| varint(value) }.join, 0)
    @stream
  end

  def cut
    end_block
    @stream
  end

  private

  def new_block
    @opcodes, @low, @above, @operands, @places = Array.new(5) { ''.b }
    @place = @peak = 0
  end

  # 4.4: a value that does not fit is an operand.
  def opcode(byte, value)
    coded = [value, 0xffff].min
    @opcodes << byte
    @low << (coded & 0xff)
    @above << (coded >> 8)
    @operands << varint(value) if coded == 0xffff
  end

  def count_bytes(register, size)
    @live_bytes += size - @sizes_by_register.fetch(register, 0)
    @sizes_by_register[register] = size
    @peak = [@peak, @live_bytes % (2**64)].max
  end

  def allocation
    @order[@live] ||= @live
    @live += 1
    @high = [@high, @live].max
    @order[@live - 1]
  end

  # Of an object that is not there, 0.
  def place(register)
    return 0 unless register

    position = @order.first(@live).index(register)
    position ? @live - 1 - position : 0
  end

  def freeing(register)
    return unless register

    @live_bytes -= @sizes_by_register.delete(register) || 0
    position = @order.index(register)
    @live -= 1
    @order[position], @order[@live] = @order[@live], @order[position] if position
    nil
  end

  def put_address(place)
    @places << svarint((place - @place) / 8)
    @place = place
  end
end

if $PROGRAM_NAME == __FILE__
  require_relative 'samples'
  if ARGV == ['--list']
    puts SAMPLES.keys
  elsif ARGV.size == 3 && ARGV[0] == '--checksums' && SAMPLES.key?(ARGV[2])
    $stdout.binmode
    $stdout.write(SAMPLES[ARGV[2]].call(Checksums.new(ARGV[1])))
  elsif ARGV.size > 3 && ARGV[0] == '--checksums' && (ARGV.drop(2) - SAMPLES.keys).empty?
    checksums = Checksums.new(ARGV[1])
    ARGV.drop(2).each { |name| File.binwrite(name, SAMPLES[name].call(checksums)) }
  else
    abort 'usage: build.rb --checksums PROGRAM SAMPLE [SAMPLE...] | --list; several go to files'
  end
end
