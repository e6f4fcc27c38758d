#!/usr/bin/env ruby
# damage_test - recordings that were cut, changed in a bit, put together wrongly: postprocess says
# so, with an offset, ends with the right status, and what lies before the damage is there.
#
#   damage_test.rb [COUNT [SEED]]
#
# Environment: POSTPROCESS, the program under test (one with sanitizers shows more). What fails is
# kept in the current directory, damaged.SEED.NUMBER and perhaps damaged.SEED.NUMBER.spool.
require 'open3'
require 'timeout'
require 'tmpdir'

require_relative '../tap'

POSTPROCESS = ENV.fetch('POSTPROCESS', File.join(BUILD, 'bin/postprocess'))
SIMULATE = File.join(BUILD, 'tests/sim/simulate')
COUNT = (ARGV[0] || size(100, 1000)).to_i
SEED = (ARGV[1] || 1).to_i

STATUS_COMPLETE = 0
STATUS_DAMAGED = 1
STATUS_CUT = 3
CHUNK_HEADER = 36

Chunk = Struct.new(:from, :to, :type, :lane, :visible)

# A recording that is as it should be, and its order.
class Original
  attr_reader :name, :raw, :spool, :plain, :chunks, :ordered, :status

  def initialize(name, directory, visible)
    @name = name
    @raw = File.binread(File.join(directory, 'raw'))
    spool = File.join(directory, 'raw.spool')
    @spool = File.exist?(spool) ? File.binread(spool) : nil
    @framed = !@raw.start_with?('MTAPERAW')
    @plain = intact(@raw.bytesize)
    @chunks = find_chunks(visible)
    @ordered = File.join(directory, 'ordered')
    @status = order(File.join(directory, 'raw'), @ordered)[0]
  end

  # What the reader can know of the stream from so many bytes of the file.
  def intact(bytes)
    return @raw.byteslice(0, bytes) unless @framed

    Open3.capture3('lz4', '-dc', stdin_data: @raw.byteslice(0, bytes), binmode: true)[0]
  end

  def header_bytes = 64 + @plain.byteslice(12, 4).unpack1('V')

  def ticks_before(plain_bytes) =
    @chunks.count { |chunk| chunk.type == 2 && chunk.to <= plain_bytes }

  # Instructions of each lane in whole chunks before there.
  def visible_before(plain_bytes)
    counts = Hash.new(0)
    @chunks.each do |chunk|
      counts[chunk.lane] += chunk.visible if chunk.type == 1 && chunk.to <= plain_bytes
    end
    counts
  end

  def counted? = @chunks.all?(&:visible)

  private

  def find_chunks(visible)
    at = header_bytes
    chunks = []
    while at + CHUNK_HEADER <= @plain.bytesize
      type, lane, payload = @plain.byteslice(at + 4, 8).unpack('CxvV')
      to = at + CHUNK_HEADER + payload
      break if to > @plain.bytesize

      chunks << Chunk.new(at, to, type, lane, visible && visible[to])
      at = to
    end
    chunks
  end
end

# The status and the messages. Of a file, nothing would be left after damage.
def order(raw, ordered, *options)
  command = [POSTPROCESS, '-q', *options, raw, '-']
  output, messages, status =
    Timeout.timeout(120) { Open3.capture3({ 'ASAN_OPTIONS' => 'detect_leaks=1' }, *command, binmode: true) }
  File.binwrite(ordered, output)
  [status.exitstatus || (128 + status.termsig), messages]
end

# One recording with one damage. `at`: the first byte of the file, or of the plain stream, that is
# not as it was.
Damaged = Struct.new(:kind, :original, :raw, :spool, :plain_at, :statuses)

class Damager
  def initialize(originals, random)
    @originals = originals
    @random = random
  end

  KINDS = %i[cut cut_killed cut_spool flip flip_spool swap repeat leave_out mix other_spool].freeze

  def make(kind) = send(kind)

  private

  def any = @originals.sample(random: @random)
  def killed = @originals.select(&:spool).sample(random: @random)
  def plain = @originals.select { |original| original.raw == original.plain }
    .sample(random: @random)

  def flipped(bytes)
    at = @random.rand(bytes.bytesize)
    changed = bytes.dup
    changed.setbyte(at, changed.getbyte(at) ^ (1 << @random.rand(8)))
    [changed, at]
  end

  def cut
    original = any
    at = @random.rand(original.raw.bytesize)
    left = original.intact(at).bytesize
    statuses = left < original.header_bytes ? [STATUS_DAMAGED] : [STATUS_CUT]
    Damaged.new(:cut, original, original.raw.byteslice(0, at), nil, left, statuses)
  end

  def cut_killed
    original = killed
    at = @random.rand(original.raw.bytesize)
    Damaged.new(:cut_killed, original, original.raw.byteslice(0, at), original.spool,
                original.intact(at).bytesize,
                [STATUS_CUT])
  end

  def cut_spool
    original = killed
    spool = original.spool.byteslice(0, @random.rand(original.spool.bytesize))
    Damaged.new(:cut_spool, original, original.raw, spool, original.plain.bytesize,
                [STATUS_DAMAGED, STATUS_CUT])
  end

  # A bit of a length may look as if the end were missing.
  def flip
    original = any
    raw, at = flipped(original.raw)
    Damaged.new(:flip, original, raw, nil, original.intact(at).bytesize,
                [STATUS_DAMAGED, STATUS_CUT])
  end

  # Slots have no checksums, for their threads write them bit by bit.
  def flip_spool
    original = killed
    spool, = flipped(original.spool)
    Damaged.new(:flip_spool, original, original.raw, spool, original.plain.bytesize,
                [STATUS_DAMAGED, STATUS_CUT])
  end

  # Chunks of different lanes may change places within their window.
  def swap
    original = plain
    a, b = original.chunks.sample(2, random: @random).sort_by(&:from)
    return swap if a.nil? || b.nil?

    raw = original.raw
    mixed =
      raw[0...a.from] + raw[b.from...b.to] + raw[a.to...b.from] + raw[a.from...a.to] + raw[b.to..]
    Damaged.new(:swap, original, mixed, nil, a.from, [STATUS_DAMAGED, STATUS_CUT, original.status])
  end

  def repeat
    original = plain
    chunk = original.chunks.sample(random: @random)
    raw = original.raw.dup
    raw.insert(chunk.to, raw[chunk.from...chunk.to])
    Damaged.new(:repeat, original, raw, nil, chunk.to, statuses_of(chunk, original))
  end

  def leave_out
    original = plain
    chunk = original.chunks.sample(random: @random)
    raw = original.raw[0...chunk.from] + original.raw[chunk.to..]
    Damaged.new(:leave_out, original, raw, nil, chunk.from,
                [STATUS_DAMAGED, STATUS_CUT, original.status])
  end

  # A chunk without units changes nothing, and what nobody knows is passed over.
  def statuses_of(chunk, original)
    chunk.type == 1 && chunk.visible != 0 ? [STATUS_DAMAGED] : [STATUS_DAMAGED, original.status]
  end

  def mix
    original = plain
    other = (@originals - [original]).sample(random: @random)
    foreign = other.chunks.sample(random: @random)
    at = original.chunks.sample(random: @random).from
    raw = original.raw.dup.insert(at, other.plain[foreign.from...foreign.to])
    Damaged.new(:mix, original, raw, nil, at, [STATUS_DAMAGED, STATUS_CUT, original.status])
  end

  def other_spool
    original, other = @originals.select(&:spool).sample(2, random: @random)
    Damaged.new(:other_spool, original, original.raw, other.spool, original.plain.bytesize,
                [STATUS_CUT])
  end
end

# What is wrong with how a damaged recording is taken; nil: nothing.
class Judge
  attr_reader :missing

  def initialize(directory)
    @directory = directory
    @missing = 0 # instructions before a damage that did not come out
  end

  def fault(damaged)
    raw = File.join(@directory, 'raw')
    ordered = File.join(@directory, 'ordered')
    write(raw, damaged)
    File.delete(ordered) if File.exist?(ordered)
    status, messages = order(raw, ordered)
    alarming(messages, status) || wrong_status(damaged, status, messages, ordered) ||
      wrong_order(damaged, status, ordered) || salvage_fault(raw)
  end

  private

  def write(raw, damaged)
    File.binwrite(raw, damaged.raw)
    spool = "#{raw}.spool"
    File.delete(spool) if File.exist?(spool)
    File.binwrite(spool, damaged.spool) if damaged.spool
  end

  def alarming(messages, status)
    return "a sanitizer reports: #{messages[0, 2000]}" if messages =~ /Sanitizer|runtime error/
    return "status #{status}" if status > 5
  end

  def wrong_status(damaged, status, messages, ordered)
    same = damaged.spool.nil? && status == damaged.original.status && File.exist?(ordered) &&
           same_lanes?(damaged.original, ordered)
    return if same # the bit was of no account
    return "status #{status}, not one of #{damaged.statuses}: #{messages}" unless
      damaged.statuses.include?(status)
    return if
      status == STATUS_COMPLETE || damaged.kind == :other_spool || messages =~ /offset 0x\h+/

    "no offset: #{messages}"
  end

  def compare(original, ordered)
    text, status = Open3.capture2e(SIMULATE, "--compare=#{original.ordered},#{ordered}")
    match = text.match(/\Asame (\d+) ticks (\d+) lanes ([\d,]*) (agree|disagree)$/)
    return [nil, text] unless status.success? && match

    [{ ticks: match[2].to_i, lanes: match[3].split(',').map(&:to_i), agree: match[4] == 'agree' },
     text]
  end

  def same_lanes?(original, ordered)
    now, = compare(original, ordered)
    before, = compare(original, original.ordered)
    now && now[:agree] && now[:lanes] == before[:lanes]
  end

  def wrong_order(damaged, status, ordered)
    original = damaged.original
    if !File.exist?(ordered) || File.empty?(ordered)
      return damaged.plain_at < original.header_bytes ? nil : 'there is no order'
    end

    found, text = compare(original, ordered)
    return "the order is no instruction stream: #{text}" unless found

    wanted = original.ticks_before(damaged.plain_at) - 2
    return "the same up to tick #{found[:ticks]}, should be #{wanted}" if found[:ticks] < wanted
    return if %i[flip_spool mix].include?(damaged.kind)
    return 'a lane is not what it was' unless found[:agree]

    shortfall(damaged, status, found)
  end

  def shortfall(damaged, status, found)
    original = damaged.original
    return unless original.counted?

    short = original.visible_before(damaged.plain_at)
      .sum { |lane, count| [count - (found[:lanes][lane] || 0), 0].max }
    @missing += short
    "#{short} instructions before the cut are missing" if short.positive? && status == STATUS_CUT
  end

  def salvage_fault(raw)
    status, messages = order(raw, '/dev/null', '--salvage')
    alarming(messages, status)
  end
end

# Simulated recordings: small ones, of which some were killed.
def simulated(directory)
  (1..8).map do |seed|
    place = File.join(directory, "simulated#{seed}")
    Dir.mkdir(place)
    options = ["seed=#{seed}", 'events=4000', "end=#{seed.odd? ? 0 : 3}", "frames=#{seed % 4 / 2}",
               'tick_every=300',
               'cut_every=50', "losses=#{seed == 5 ? 3 : 0}"]
    raise 'simulate failed' unless system(SIMULATE, '--write', "--directory=#{place}", *options)

    visible = File.readlines(File.join(place, 'chunks'))
      .to_h { |line| line.split.map(&:to_i).values_at(0, 3) }
    Original.new("simulated#{seed}", place, visible)
  end
end

REAL_PROGRAM = '20000.times { |i| "x" * (i % 300) }'

# Real ones, one of a program that was killed.
def recorded(directory)
  { 'recorded' => REAL_PROGRAM, 'recorded_killed' => "#{REAL_PROGRAM}; Process.kill(:KILL, $$)" }
    .map do |name, program|
    place = File.join(directory, name)
    Dir.mkdir(place)
    system(File.join(BUILD, 'bin/malloctape'), 'record', '-o', File.join(place, 'raw'), '--',
           'ruby', '-e', program,
           out: File::NULL, err: File::NULL)
    Original.new(name, place, nil)
  end
end

def keep(damaged, number)
  name = "damaged.#{SEED}.#{number}"
  File.binwrite(name, damaged.raw)
  File.binwrite("#{name}.spool", damaged.spool) if damaged.spool
  name
end

def run_kind(kind, damager, judge, number)
  count = (COUNT + Damager::KINDS.size - 1) / Damager::KINDS.size
  failures = (0...count).filter_map do |i|
    damaged = damager.make(kind)
    fault = judge.fault(damaged) || next
    "#{damaged.original.name}: #{fault} (kept as #{keep(damaged, (number * count) + i)})"
  end
  report failures.empty?, "#{kind}: #{count} recordings, seed #{SEED}", failures
end

plan Damager::KINDS.size
Dir.mktmpdir do |directory|
  originals = simulated(directory) + recorded(directory)
  sizes = originals.map { |o| "#{o.name} #{o.raw.bytesize}+#{o.spool&.bytesize.to_i}" }
  puts "# recordings: #{sizes.join(', ')}"
  judge = Judge.new(directory)
  Damager::KINDS.each_with_index do |kind, number|
    run_kind(kind, Damager.new(originals, Random.new(SEED + number)), judge, number)
  end
  puts "# instructions before a damage that did not come out: #{judge.missing}"
end
