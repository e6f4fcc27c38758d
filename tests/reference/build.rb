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

  def svarint(value)
    varint(value.negative? ? (-value * 2) - 1 : value * 2)
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

# One chunk of records, FORMAT.md 5. Object names are [lane, serial], or nil for the unknown one. Records whose kind
# has a slot get a short code where there is one, the others a long one.
class RawRecords
  include Encode

  attr_reader :count, :births, :counts

  # Rows of 5.2 by slot: first bytes, base, step, bytes of x; the first that fits is taken.
  SHORT = [
    [[0..47, 0, 1, 0], [48..119, 48, 256, 1], [120..121, 18_480, 65_536, 2]],
    [[122..137, 0, 1, 0], [138..149, 16, 256, 1], [150..150, 3_088, 65_536, 2]],
    [[151..194, 0, 8, 0], [195..206, 0, 256, 1], [207..207, 0, 65_536, 2]],
    [[208..231, 0, 8, 0], [232..239, 0, 256, 1], [240..240, 0, 65_536, 2]]
  ].freeze

  def initialize(lane, births, stamps, addresses, slots)
    @lane = lane
    @births = births
    @stamps = stamps
    @addresses = addresses
    @slots = slots.map { |name| name ? Encode.call(name).number : 0 }
    @codes = ''.b
    @places = ''.b
    @count = 0
    @counts = Hash.new(0)
    @foreign = {} # lane => latest serial, the latest lane last
    @place = 0
  end

  # The token of a birth; of a death nothing of interest.
  def call(name, object: nil, size: nil, alignment: nil, at: nil, numbers: nil)
    call = Encode.call(name)
    @counts[call.number] += 1
    @count += 1
    short = short(call, object, size)
    if short
      @codes << short << varint_if(DEATHS.include?(call.shape) && size) << varint_if(alignment)
    else
      long(call, object, size, alignment, numbers)
    end
    birth(at) if BIRTHS.include?(call.shape) || call.shape == :REALLOC
  end

  def failed(name, size:, object: nil, alignment: nil)
    call = Encode.call(name)
    @counts[call.number] += 1
    @count += 1
    opcode(54, ends?(call) ? object_bits(object) : 0)
    @codes << varint(call.number)
    put_object(object) if ends?(call)
    @codes << varint(size) << varint_if(alignment)
  end

  def thread_begin(id) = other(48, id)
  def thread_end = other(49)
  def thread_cache_deleted = other(50)
  def stamp_before(structure, number) = stamp(51, structure, number)
  def stamp_after(structure, number) = stamp(52, structure, number)
  def lost_stamps(structure, from, count) = other(55, structure, from, count)

  def lost(events, births)
    other(53, events, births)
    @births += births
  end

  # Bytes that the document may forbid.
  def other(number, *operands)
    @count += 1
    opcode(number, 0)
    operands.each { |operand| @codes << varint(operand) }
  end

  # The same, with no opcode byte.
  def code(*bytes)
    @count += 1
    @codes << bytes.pack('C*')
  end

  def payload
    @slots.pack('C4') + [@codes.bytesize].pack('V') + @codes + @places
  end

  private

  def ends?(call)
    call.shape == :REALLOC || DEATHS.include?(call.shape)
  end

  def varint_if(value)
    value ? varint(value) : ''
  end

  # The code of a record in its slot, or nil.
  def short(call, object, size)
    slot = @slots.index(call.number)
    return unless slot && !(slot > 1 && size.nil?)
    return short_row(slot, size) if slot > 1
    return unless object
    return short_row(slot, @births - object[1]) if object[0] == @lane

    again(*object) if slot.zero? && !@foreign.empty? && @foreign.keys.last == object[0]
  end

  def short_row(slot, value)
    SHORT[slot].each do |bytes, base, step, width|
      over, rest = (value - base).divmod(step)
      next if over.negative? || bytes.first + over > bytes.last || (width.zero? && !rest.zero?)

      return [bytes.first + over].pack('C') + [[], ['C', rest], ['v', rest]][width].then { |f, x| f ? [x].pack(f) : '' }
    end
    nil
  end

  def again(lane, serial)
    difference = serial - @foreign[lane]
    @foreign[lane] = serial
    [241].pack('C') + svarint(difference)
  end

  def long(call, object, size, alignment, numbers)
    opcode(call.number, ends?(call) ? object_bits(object) : 0)
    put_object(object) if ends?(call)
    @codes << varint_if(size) << varint_if(alignment)
    @codes << ([numbers.size] + numbers).map { |number| varint(number) }.join if numbers
  end

  def opcode(number, bits)
    @codes << [242, number | bits].pack('CC')
  end

  def object_bits(object)
    return 0x80 unless object

    object[0] == @lane ? 0 : 0x40
  end

  def put_object(object)
    return unless object

    lane, serial = object
    if lane == @lane
      @codes << varint(@births - serial)
    else
      before = @foreign.delete(lane)
      @codes << varint(lane) << (before ? svarint(serial - before) : varint(serial))
      @foreign[lane] = serial
    end
  end

  def birth(place)
    @births += 1
    if @addresses
      @places << svarint((place - @place) / 8)
      @place = place
    end
    [@lane, @births]
  end

  def stamp(number, structure, value)
    other(number, structure, value - @stamps[structure])
    @stamps[structure] = value
  end
end

# A raw stream, FORMAT.md 4.
class RawBuilder
  include Encode

  State = Struct.new(:records, :births, :chunks, :stamps)
  METADATA = { program: '/usr/bin/sample', allocator: 'gperftools 2.10' }.freeze

  attr_reader :counts, :lost_events

  def initialize(checksums, metadata: METADATA, addresses: false, minor: 0, features: nil, info: 0)
    @checksums = checksums
    @addresses = addresses
    @lanes = Hash.new { |lanes, number| lanes[number] = State.new(0, 0, 0, Hash.new(0)) }
    @counts = Hash.new(0)
    @ticks = 0
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPERAW'.b + [1, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<') +
            (0..15).to_a.pack('C*') + [1_700_000_000_123_456_789, 4711].pack('Q<V')
    @stream << fixed << @checksums.of(fixed + text) << text
  end

  SLOTS = [:free, nil, :malloc, nil].freeze

  # Yields a RawRecords. Returns what the block returns.
  def records(lane, key: nil, slots: SLOTS)
    state = @lanes[lane]
    key = (state.chunks % 64).zero? if key.nil?
    state.stamps.clear if key
    chunk = RawRecords.new(lane, state.births, state.stamps, @addresses, slots)
    result = yield chunk
    chunk(1, chunk.payload, flags: key ? 1 : 0, lane:, records: chunk.count, first: state.records,
                            birth: state.births)
    state.records += chunk.count
    state.births = chunk.births
    state.chunks += 1
    chunk.counts.each { |number, count| @counts[number] += count }
    result
  end

  def tick(nanoseconds, rss, heap)
    chunk(2, [nanoseconds, rss, heap].map { |value| varint(value) }.join, first: @ticks)
    @ticks += 1
  end

  def finish(status: 0, nanoseconds: 50_000_000, lost: 0, waits: 0, waited: 0, counts: @counts, births: {})
    last = @lanes.keys.max || -1
    values = [status, nanoseconds, lost, waits, waited, last + 1]
    (0..last).each { |lane| values << @lanes[lane].records << births.fetch(lane, @lanes[lane].births) }
    values << counts.size
    counts.sort.each { |number, count| values << number << count }
    chunk(3, values.map { |value| varint(value) }.join)
    @stream
  end

  def cut
    @stream
  end

  # One chunk with any content.
  def chunk(type, payload, flags: 0, lane: 0, records: 0, first: 0, birth: 0)
    fixed = 'MTRC'.b + [type, flags, lane, payload.bytesize, records, first, birth].pack('CCvVVQ<Q<')
    @stream << fixed << @checksums.of(fixed + payload) << payload
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
    @high = @live = @threads = @lost = 0
    @counts = Hash.new(0)
    @stream = ''.b
    text = metadata(metadata)
    fixed = 'MTAPEINS'.b + [1, minor, text.bytesize, features || (addresses ? 1 : 0), info].pack('vvVQ<Q<')
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
    opcode(call.number | (failed ? 0x40 : 0) | (unknown ? 0x80 : 0))
    @sizes << varint(size) if size
    @objects << varint(place(register)) if register
    @misc << varint(alignment) if alignment
    @misc << ([numbers.size] + numbers).map { |number| varint(number) }.join if numbers
    return death(register) if deaths

    put_address(at) if @addresses && at
    return if failed || call.shape == :HEAP

    births || unknown ? birth : register
  end

  def lane(number) = other(48, number)
  def thread_end = other(50)
  def thread_cache_deleted = other(51)
  def tick(nanoseconds, rss, heap) = other(52, nanoseconds, rss, heap)

  def thread_begin(id)
    @threads += 1
    other(49, id)
  end

  def lost(lane, events)
    @lost += events
    other(53, lane, events)
  end

  # Bytes that the document may forbid.
  def other(number, *operands)
    opcode(number)
    operands.each { |operand| @misc << varint(operand) }
  end

  def end_block
    return if @count.zero?

    block(Encode.payload([@opcodes, @sizes, @objects, @misc, @places]), @count)
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
    @opcodes, @sizes, @objects, @misc, @places = Array.new(5) { ''.b }
    @count = @place = 0
  end

  def opcode(byte)
    @opcodes << byte
    @count += 1
  end

  def birth
    @order[@live] ||= @live
    @live += 1
    @high = [@high, @live].max
    @order[@live - 1]
  end

  # Of an object that is not there, 0.
  def place(register)
    position = @order.first(@live).index(register)
    position ? @live - 1 - position : 0
  end

  def death(register)
    return unless register

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
