#!/usr/bin/env ruby
# cli_damage_test - damaged streams: no command crashes, hangs or prints what is not there, and both
# decoders take the same streams and print the same.
#
#   cli_damage_test.rb [SEED [COUNT]]
#
# Takes samples, changes a few bytes of each and makes the checksums right again, so that the damage
# gets past them. What fails is kept as damaged.SEED.SAMPLE.NUMBER in the current directory.
require 'open3'
require 'timeout'
require 'tmpdir'

require_relative '../tap'
require_relative '../reference/expected'

SEED = (ARGV[0] || 1).to_i
COUNT = (ARGV[1] || size(150, 1500)).to_i
SAMPLE_NAMES = %w[raw_example raw_everything raw_addresses instructions_everything
                  instructions_addresses verify_raw verify_good verify_lacking_raw
                  verify_interleaved_raw].freeze

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

def sample(name) = IO.popen([File.join(BUILD, 'tests/samples/write_samples'), name], 'rb', &:read)

CHECKSUMS = Checksums.new(File.join(BUILD, 'tests/tools/checksums'))
STREAMS = SAMPLE_NAMES.to_h { |name| [name, sample(name)] }
PARTNERS = %w[verify_raw verify_good verify_lacking_order].to_h { |name| [name, sample(name)] }

# Where the checksums are: offset of the field and what it covers besides the bytes before it in its
# header.
Layout = Struct.new(:header, :header_checksum, :chunk, :chunk_checksum, :payload_field)
RAW = Layout.new(64, 60, 36, 32, 8)
INSTRUCTIONS = Layout.new(36, 32, 16, 12, 4)

def raw?(stream) = stream.start_with?('MTAPERAW'.b)

# Puts the checksums right, as far as the lengths make sense.
def seal(stream)
  layout = raw?(stream) ? RAW : INSTRUCTIONS
  metadata = stream.byteslice(12, 4).unpack1('V')
  at = layout.header + metadata
  return if at > stream.bytesize

  seal_part(stream, 0, layout.header_checksum, layout.header, metadata)
  while at + layout.chunk <= stream.bytesize
    payload = stream.byteslice(at + layout.payload_field, 4).unpack1('V')
    break if at + layout.chunk + payload > stream.bytesize

    seal_part(stream, at, layout.chunk_checksum, layout.chunk, payload)
    at += layout.chunk + payload
  end
end

def seal_part(stream, at, checksum, header, payload)
  stream[at + checksum, 4] =
    CHECKSUMS.of(stream.byteslice(at, checksum) + stream.byteslice(at + header, payload))
end

def damaged(stream, random)
  copy = stream.dup
  random.rand(1..4).times { copy.setbyte(random.rand(8...copy.bytesize), random.rand(256)) }
  seal(copy)
  copy
end

def run_program(*words)
  output, messages, status =
    Timeout.timeout(300) { Open3.capture3(File.join(BUILD, 'bin/malloctape'), *words) }
  sound = [0, 1, 3].include?(status.exitstatus) && messages !~ /Sanitizer|runtime error/
  [output, status.exitstatus, sound ? nil : "#{words[0]}: #{status} #{messages.lines.first}"]
end

# What is wrong with how the stream in `file` is taken; nil: nothing.
def fault(file, stream, partner)
  output, status, crash = run_program('dump', file)
  crash ||= run_program('info', file)[2]
  crash ||= run_program('verify', *(raw?(stream) ? [file, partner] : [partner, file]))[2]
  return crash if crash

  expected, refusal = reference_text(stream)
  complete = refusal.nil?
  return "dump: status #{status}, the reference #{complete ? 'took' : 'refused'} it" if
    complete != status.zero?

  # A reader may refuse as a whole a block of which the other has printed the beginning.
  'dump: not what the reference prints' unless
    complete ? output == expected : expected.start_with?(output)
end

# The other stream of a verification.
def partner_name(name, stream)
  return 'verify_raw' unless raw?(stream)

  { 'verify_lacking_raw' => 'verify_lacking_order' }.fetch(name, 'verify_good')
end

def run_sample(name, random, directory)
  failures = []
  (COUNT / SAMPLE_NAMES.size).times do |number|
    stream = damaged(STREAMS[name], random)
    file = File.join(directory, 'damaged')
    partner = File.join(directory, 'partner')
    File.binwrite(file, stream)
    File.binwrite(partner, PARTNERS.fetch(partner_name(name, stream)))
    problem = fault(file, stream, partner) || next
    failures << "#{number}: #{problem}"
    File.binwrite("damaged.#{SEED}.#{name}.#{number}", stream)
  end
  failures
end

plan SAMPLE_NAMES.size
Dir.mktmpdir do |directory|
  SAMPLE_NAMES.each_with_index do |name, index|
    failures = run_sample(name, Random.new(SEED + index), directory)
    report failures.empty?, "damage in #{name}, seed #{SEED}", failures
  end
end
