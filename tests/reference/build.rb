#!/usr/bin/env ruby
# build - writes a sample stream by hand, from the format documents, to the standard output.
#
#   build.rb --checksums PROGRAM SAMPLE     PROGRAM is tests/tools/checksums
#   build.rb --list                         the names of the samples
#
# The streams are plain; tests that want LZ4 pipe them through lz4. What each sample is for stands in
# samples.rb.
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

  # Columns behind their lengths.
  def payload(columns)
    columns.map { |column| varint(column.bytesize) }.join + columns.join
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

# What a lane has had, and what its present run remembers.
class BuiltLane
  attr_reader :number, :stamps, :profile, :ways
  attr_accessor :units, :births, :chunks, :runs, :run_birth, :place

  def initialize(number)
    @number = number
    @units = @births = @chunks = @runs = 0
    @stamps = Hash.new(0)
  end

  # The profile is names of calls, nil for ranges that are not used.
  def begin_run(profile, key)
    @profile = profile.map { |name| name ? Encode.call(name).number : 0 }
    @stamps.clear if key
    @ways = Array.new(8)
    @place = 0
    @run_birth = @births
    @runs += 1
  end
end

# The units of one chunk, FORMAT.md 5. Object names are [lane, serial], or nil for the unknown one. Records whose kind is
# in the profile get a unit of their own where there is one, the others a general one.
class RawRecords
  attr_reader :units, :events

  # 5.2 by place in the profile: the unit of operand 0, the least operand and the first one that is too large.
  RANGES = [[0, 1, 0x8000], [0x9fff, 1, 0x2001], [0xdfff, 1, 0x801],
            [0x8000, 0, 0x2000], [0xc000, 0, 0x1000], [0xd000, 0, 0x800], [0xe7ff, 1, 0x401]].freeze

  def initialize(lane, addresses)
    @lane = lane
    @addresses = addresses
    @units = []
    @events = 0
  end

  # The token of a birth; of a death nothing of interest.
  def call(name, object: nil, size: nil, alignment: nil, at: nil, numbers: nil)
    call = Encode.call(name)
    @events += 1
    births = BIRTHS.include?(call.shape)
    if short(call, births ? size : distance(object)) || (DEATHS.include?(call.shape) && again(call, object))
      number(size) if size && !births
    else
      long(call, object, size, numbers)
    end
    number(alignment) if alignment
    birth(at) if births || call.shape == :REALLOC
  end

  def failed(name, size:, object: nil, alignment: nil)
    call = Encode.call(name)
    @events += 1
    general(54, ends?(call) ? object_bits(object) : 0)
    number(call.number)
    put_object(object) if ends?(call)
    number(size)
    number(alignment) if alignment
  end

  def births = @lane.births

  def thread_begin(id) = other(48, id)
  def thread_end = other(49)
  def thread_cache_deleted = other(50)
  def stamp_before(structure, number) = stamp(0xf100, structure, number)
  def stamp_after(structure, number) = stamp(0xf200, structure, number)
  def lost_stamps(structure, from, count) = other(55, structure, from, count)

  def lost(events, births)
    other(53, events, births)
    @lane.births += births
  end

  # Operands that the document may forbid.
  def other(number, *operands)
    general(number, 0)
    operands.each { |operand| number(operand) }
  end

  # Any units; they begin so many objects.
  def raw(*units, births: 0)
    @units.concat(units)
    @lane.births += births
  end

  private

  def ends?(call)
    call.shape == :REALLOC || DEATHS.include?(call.shape)
  end

  # Of an object of this lane, else nil.
  def distance(object)
    @lane.births + 1 - object[1] if object && object[0] == @lane.number
  end

  # The main operand in the unit, or in two of death 1.
  def short(call, operand)
    range = @lane.profile.index(call.number)
    return unless range && operand

    base, least, limit = RANGES[range]
    return @units << (base + operand) if operand.between?(least, limit - 1)

    @units << (0xd800 + (operand >> 16)) << (operand & 0xffff) if range.zero? && operand.between?(1, (1 << 27) - 1)
  end

  # Death 1 of an object of the lane that is remembered in its way.
  def again(call, object)
    return unless object && @lane.profile[0] == call.number

    way = object[0] % 8
    lane, serial = @lane.ways[way]
    coded = Encode.zigzag(object[1] - serial) if lane == object[0]
    return unless coded && coded < 1 << 23

    @lane.ways[way] = object
    @units << (0xec00 + (way << 7) + (coded >> 16)) << (coded & 0xffff)
  end

  def long(call, object, size, numbers)
    general(call.number, ends?(call) ? object_bits(object) : 0)
    put_object(object) if ends?(call)
    number(size) if size
    ([numbers.size] + numbers).each { |one| number(one) } if numbers
  end

  def general(number, bits)
    @units << (0xf000 + number + (bits << 6))
  end

  def number(value)
    while value > 0x7fff
      @units << (0x8000 | (value & 0x7fff))
      value >>= 15
    end
    @units << value
  end

  def object_bits(object)
    return 2 unless object

    object[0] == @lane.number ? 0 : 1
  end

  def put_object(object)
    return unless object
    return number(distance(object)) if distance(object)

    object.each { |one| number(one) }
    @lane.ways[object[0] % 8] = object
  end

  def birth(place)
    @lane.births += 1
    if @addresses
      number(Encode.zigzag((place - @lane.place) / 8))
      @lane.place = place
    end
    [@lane.number, @lane.births]
  end

  def stamp(base, structure, value)
    @units << (base + structure)
    number(value - @lane.stamps[structure])
    @lane.stamps[structure] = value
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
    @ticks = @events = 0
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPERAW'.b + [2, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<') +
            (0..15).to_a.pack('C*') + [1_700_000_000_123_456_789, 4711].pack('Q<V')
    @stream << fixed << @checksums.of(fixed + text) << text
  end

  PROFILE = [:free, nil, nil, :malloc, nil, nil, :realloc_moved, nil].freeze

  # One chunk; it begins a run unless it is `more` of the present one. Every other one of a lane is packed. Yields a
  # RawRecords. Returns what the block returns.
  def records(number, more: false, key: nil, packed: nil, profile: PROFILE)
    lane = @lanes[number]
    key = !more && (lane.runs % 16).zero? if key.nil?
    packed = lane.chunks.odd? if packed.nil?
    lane.begin_run(profile, key) unless more
    records = RawRecords.new(lane, @addresses)
    result = yield records
    @events += records.events
    flags = (more ? 0 : 1) + (key ? 2 : 0) + (packed ? 4 : 0)
    head = more ? '' : lane.profile.pack('C8')
    units(lane, head + (packed ? pack(records.units) : records.units.pack('v*')), records.units.size, flags)
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
  def chunk(type, payload, flags: 0, lane: 0, units: 0, first: 0, birth: 0)
    fixed = 'MTRC'.b + [type, flags, lane, payload.bytesize, units, first, birth].pack('CCvVVQ<Q<')
    @stream << fixed << @checksums.of(fixed + payload) << payload
  end

  private

  def units(lane, payload, count, flags)
    chunk(1, payload, flags:, lane: lane.number, units: count, first: lane.units, birth: lane.run_birth)
    lane.units += count
    lane.chunks += 1
  end

  PAGES = [0x00..0x1f, 0x80..0x9f, 0xa0..0xaf, 0xc0..0xcf, 0xd0..0xdb, 0xe0..0xef, 0xf0..0xf2].flat_map(&:to_a).freeze

  # 5.5 Packed units, as short as they go.
  def pack(units)
    units.map { |unit| pack_one(unit) }.join
  end

  def pack_one(unit)
    page = PAGES.index(unit >> 8)
    short = packed_in_one(unit)
    return [short].pack('C') if short
    return [128 + page, unit & 0xff].pack('CC') if page

    [255, unit].pack('Cv')
  end

  def packed_in_one(unit)
    case unit
    when 1..48 then unit - 1
    when 0x8000...0x8160 then 48 + ((unit - 0x8000) / 8) if (unit % 8).zero?
    when 0xa000...0xa00c then 92 + unit - 0xa000
    when 0xc000...0xc0c0 then 104 + ((unit - 0xc000) / 8) if (unit % 8).zero?
    end
  end
end

# An instruction stream. It keeps the order of registers, so that births can tell their register.
class InstructionBuilder
  include Encode

  METADATA = { run: '000102030405060708090a0b0c0d0e0f', program: '/usr/bin/sample', pid: 4711,
               allocator: 'gperftools 2.10', start: 1_700_000_000 }.freeze

  def initialize(checksums, metadata: METADATA, addresses: false, minor: 0, features: nil, info: 0)
    @checksums = checksums
    @addresses = addresses
    @order = []
    @sizes_by_register = {}
    @high = @live = @live_bytes = @threads = @lost = 0
    @counts = Hash.new(0)
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPEINS'.b + [2, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<')
    @stream << fixed << @checksums.of(fixed + text) << text
    new_block
  end

  # A call; `register` nil: of an unknown object. Returns the register of the object that began.
  def call(name, register: nil, size: nil, alignment: nil, numbers: nil, failed: false, at: nil)
    call = Encode.call(name)
    births = BIRTHS.include?(call.shape)
    deaths = DEATHS.include?(call.shape)
    unknown = (deaths || call.shape == :REALLOC) && register.nil?
    @counts[call.number] += 1
    opcode(call.number | (failed ? 0x40 : 0) | (unknown ? 0x80 : 0), births ? size : place(register))
    @sizes << varint(size) if size && !births
    @misc << varint(alignment) if alignment
    @misc << ([numbers.size] + numbers).map { |number| varint(number) }.join if numbers
    return death(register) if deaths

    put_address(at) if @addresses && at
    return if failed || call.shape == :HEAP

    (births || unknown ? birth : register).tap { |brought| count_bytes(brought, size) }
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

  # Bytes that the document may forbid.
  def other(number, *operands, value: 0)
    opcode(number, value)
    operands.each { |operand| @misc << varint(operand) }
  end

  def end_block
    return if @values.empty?

    low, high, wide = value_columns
    columns = [@opcodes, low, high, wide, @sizes, @misc, @places]
    block(varint(@live_bytes % (2**64)) + varint(@peak) + Encode.payload(columns), @values.size)
    new_block
  end

  def finish(status: 0, live: @live, high: @high, threads: @threads, lost: @lost, counts: @counts)
    end_block
    values = [status, live, high, threads, lost, counts.size] + counts.sort.flatten
    block(values.map { |value| varint(value) }.join, 0)
    @stream
  end

  def cut
    end_block
    @stream
  end

  private

  def new_block
    @opcodes, @sizes, @misc, @places = Array.new(4) { ''.b }
    @values = []
    @place = @peak = 0
  end

  def opcode(byte, value)
    @opcodes << byte
    @values << value
  end

  # Two columns or one, as INSTRUCTIONS.md 4.4 has them, and what they have no room for.
  def value_columns
    escape = @values.count { |value| value >= 0xff } > @values.size / 32 ? 0xffff : 0xff
    coded = @values.map { |value| [value, escape].min }
    low = coded.map { |value| value & 0xff }.pack('C*')
    high = escape == 0xff ? ''.b : coded.map { |value| value >> 8 }.pack('C*')
    [low, high, @values.select { |value| value >= escape }.map { |value| varint(value) }.join]
  end

  def count_bytes(register, size)
    @live_bytes += size - @sizes_by_register.fetch(register, 0)
    @sizes_by_register[register] = size
    @peak = [@peak, @live_bytes % (2**64)].max
  end

  def birth
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

  def death(register)
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

  def block(payload, count)
    fixed = 'MTBI'.b + [payload.bytesize, count].pack('VV')
    @stream << fixed << @checksums.of(fixed + payload) << payload
  end
end

if $PROGRAM_NAME == __FILE__
  require_relative 'samples'
  if ARGV == ['--list']
    puts SAMPLES.keys
  elsif ARGV.size == 3 && ARGV[0] == '--checksums' && SAMPLES.key?(ARGV[2])
    $stdout.binmode
    $stdout.write(SAMPLES[ARGV[2]].call(Checksums.new(ARGV[1])))
  else
    abort 'usage: build.rb --checksums PROGRAM SAMPLE | --list'
  end
end
