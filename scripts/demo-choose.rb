#!/usr/bin/env ruby
# frozen_string_literal: true

# demo-choose.rb MALLOCTAPE DEMO-DIR - of the recordings in DEMO-DIR/raw, takes the one with the
# most calls.
#
# Moves it, and its spool if there is one, to raw.lz4. Says which processes were recorded. Exit
# status 1 if none was.

require 'json'
require 'open3'

malloctape, dir = ARGV
Recording = Struct.new(:file, :program, :calls)

# nil: nothing can be told of it.
def look_at(malloctape, file)
  json, = Open3.capture2(malloctape, 'info', '--json', '-', file, err: File::NULL)
  info = JSON.parse(json)
  Recording.new(file, File.basename(info.fetch('program')), info.fetch('events'))
rescue JSON::ParserError
  nil
end

# 1234567 as "1 234 567".
def grouped(number) = number.to_s.reverse.scan(/\d{1,3}/).join(' ').reverse

files = Dir.glob(File.join(dir, 'raw', '*.raw.lz4'))
recordings = files.filter_map { |file| look_at(malloctape, file) }
chosen = recordings.max_by(&:calls)
unless chosen
  abort('run-demo.sh: nothing was recorded: is it a statically linked or a setuid program?')
end

if recordings.size > 1
  warn("run-demo.sh: #{recordings.size} processes were recorded, these with the most calls:")
  recordings.max_by(5, &:calls).each { |one| warn("    #{one.program}: #{grouped(one.calls)}") }
end
target = File.join(dir, 'raw.lz4')
File.rename(chosen.file, target)
File.rename("#{chosen.file}.spool", "#{target}.spool") if File.exist?("#{chosen.file}.spool")

if !ENV.key?('PYTHONMALLOC') && recordings.any? { |one| one.program.start_with?('python') }
  warn('run-demo.sh: Python has pools of its own for small objects; ' \
       'with PYTHONMALLOC=malloc the allocator sees them')
end
