#!/usr/bin/env ruby
# expected.rb FILE... - writes what the decoders in Ruby say about each plain stream: FILE.expected,
# and FILE.refused with the reason if one does not take it to its end. One process for many files,
# as starting Ruby takes longer than most of them.

require 'stringio'
require_relative 'raw_dump'
require_relative 'instruction_dump'

# The text, and why it ends before the stream does, or nil.
def reference_text(stream)
  output = $stdout = StringIO.new
  bytes = Bytes.new(stream, 0)
  stream.start_with?('MTAPERAW'.b) ? RawDump.new(bytes).run : InstructionDump.new(bytes).run
  [output.string, nil]
rescue BadStream => e
  [output.string, e.message]
ensure
  $stdout = STDOUT
end

if $PROGRAM_NAME == __FILE__
  ARGV.each do |file|
    text, refusal = reference_text(File.binread(file))
    File.binwrite("#{file}.expected", text)
    File.write("#{file}.refused", refusal) if refusal
  end
end
