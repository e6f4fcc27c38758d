#!/usr/bin/env ruby
# frozen_string_literal: true

# anonymous_test.rb - `malloctape cut --anonymous`: a secret in every text that a trace can carry is in
# no byte of what it writes.

require 'fileutils'
require 'json'
require 'open3'
require 'tmpdir'
require_relative 'traces'

# No part of a name that anything else has.
SECRET = 'Qzsecret'
# Also as the trace has it in numbers: the day, a process.
START = '1723456789'
PID = '987654'
# Lines of a function of Python.
LINES = '4d2000004d3'

KEYS = File.read("#{__dir__}/../../stream/FORMAT.md")[/^### 4.1.*?^### 4.2/m]
           .scan(/^\| (`.*?`) \|/).flatten.join(' ').scan(/`([\w.]+)`/).flatten.map { |key| key.sub('NAME', 'MALLOC_CONF') } +
       File.read("#{__dir__}/../../stream/INSTRUCTIONS.md")[/^### 4.1.*?^### 4.2/m]
           .scan(/^\| `([\w.]+)` \|/).flatten + ['unheard.of']

# A stream with all keys of metadata, and all kinds of texts of call stacks.
def write_planted(path)
  id = SECRET.unpack1('H*')
  metadata = KEYS.uniq.map { |key| "w #{key}=#{{ 'pid' => PID, 'start' => START }.fetch(key, "#{SECRET} 1.2")}\n" }.join
  output, status = Open3.capture2("#{BUILD}/tests/symbols/write_stacks", binmode: true, stdin_data: <<~TEXT)
    #{metadata}m 1 7f0000001000 10000 7f0000000000 #{id} /home/#{SECRET}/lib#{SECRET}.so
    c 1 1 77770
    c 2 0 66660
    x 2 #{SECRET}_function	/home/#{SECRET}.py	12|outer	/home/#{SECRET}.py	1
    m 3 0 0 0 - /home/#{SECRET}.py
    c 3 3 #{LINES}
    x 3 py::#{SECRET}_code:/home/#{SECRET}.py
    n 8 0 1
    n 9 8 2
    n 10 9 3
    a 1 24 9
    a 2 3000 8
    t 20000000 1000000 5000
    f 1 10
    a 4 48 10
    m 2 7f0001001000 10000 7f0001000000 #{id} /home/#{SECRET}/late#{SECRET}.so
    a 3 48 9
    t 20000000 1000000 5000
  TEXT
  abort 'Bail out! write_stacks failed' unless status.success?
  File.binwrite(path, output)
end

# A program, its argument, settings, and files.
def record_planted(path)
  FileUtils.mkdir(SECRET)
  program = "#{SECRET}/#{SECRET}_program"
  FileUtils.cp("#{BUILD}/tests/workloads/threads", program)
  environment = { 'MALLOC_CONF' => "#{SECRET}:1", 'TCMALLOC_SAMPLE_PARAMETER' => SECRET, SECRET => SECRET,
                  'TMPDIR' => Dir.pwd }
  output_of(environment, MALLOCTAPE, 'record', '-q', '--stacks=all', '--addresses', '-o', path, '--', program, SECRET)
rescue SystemExit
  raise
end

# Where the secrets are in a stream: in its bytes, and as a dump prints them.
def found(path)
  bytes = File.binread(path)
  printed = output_of({}, MALLOCTAPE, 'dump', path)
  [SECRET, SECRET.unpack1('H*'), SECRET.swapcase].flat_map { |one| [bytes.scan(one.b).size, printed.scan(one).size] }.sum +
    printed.scan(/metadata (?:pid|start|run|program(?!\.has=lib)|env)/).size + printed.scan(PID).size + printed.scan(START).size
end

def anonymous(trace, *words)
  output_of({}, MALLOCTAPE, 'cut', '-q', trace, '-o', 'given', '--anonymous', *words)
  found('given')
end

plan 6

Dir.mktmpdir('malloctape-anonymous') do |directory|
  Dir.chdir(directory)
  write_planted('written')
  record_planted('recorded.raw')
  output_of({}, MALLOCTAPE, 'order', '-q', 'recorded.raw', 'recorded')
  File.binwrite('mapped', output_of({}, "#{BUILD}/tests/samples/write_samples", 'instructions_mappings'))
  names = output_of({}, MALLOCTAPE, 'dump', 'mapped').scan(%r{(?<= )/[\w/.]+}).uniq
  planted = %w[written recorded].map { |trace| found(trace) }
  planted << KEYS.uniq.count { |key| output_of({}, MALLOCTAPE, 'dump', 'written').include?("metadata #{key}=") }
  report planted[0] > 20 && planted[1] > 3 && planted[2] == KEYS.uniq.size && names.size > 1,
         'the secrets are in the traces', [planted.inspect, KEYS.inspect, names.inspect]

  left = %w[written recorded].product([[], ['--from', '1calls'], ['--blur', 'sizes', '--blur', 'times']])
                             .filter_map { |trace, words| (n = anonymous(trace, *words)) && n.positive? && [trace, words, n] }
  report left.empty?, 'and in no byte of what --anonymous writes', left.map(&:inspect)

  output_of({}, MALLOCTAPE, 'cut', '-q', 'mapped', '-o', 'given', '--anonymous')
  bytes = File.binread('given')
  lines = output_of({}, MALLOCTAPE, 'dump', 'given').lines.grep(/ (map|area|look|resident)/)
  report names.none? { |name| bytes.include?(name) } && lines.any? { |line| line.include?('file-1') },
         'files that were mapped, or resident, have numbers', names + lines

  with_ids = anonymous('written', '--keep', 'build-ids')
  kept = output_of({}, MALLOCTAPE, 'dump', 'given')
  functions = anonymous('written', '--keep', 'functions')
  named = output_of({}, MALLOCTAPE, 'dump', 'given')
  anonymous('written', '--keep', 'functions', '--keep', 'build-ids')
  both = output_of({}, MALLOCTAPE, 'dump', 'given')
  report [named, kept, both].none? { |text| text.include?(LINES) } && both.include?("py::#{SECRET}_code".unpack1('H*')) &&
         both.scan(/define module \d+ from/).size == 2 && !both.include?('home'.unpack1('H*')),
         'files and lines of functions of an interpreter go', [kept, both]
  report with_ids.positive? && kept.include?(SECRET.unpack1('H*')) && !kept.include?('lib') && kept.include?('0x77770') &&
         functions.positive? && named.include?("#{SECRET}_function\nouter".unpack1('H*')) &&
         !named.include?('home'.unpack1('H*')),
         'build ids and functions stay if asked for', [kept, named]

  anonymous('recorded')
  whole, given = %w[recorded given].map { |trace| Trace.new(trace) }
  same = whole.calls.size == given.calls.size &&
         whole.calls.zip(given.calls).all? { |one, other| one == other }
  anonymous('recorded', '--blur', 'sizes')
  sizes = output_of({}, MALLOCTAPE, 'dump', '--only-calls', 'given').scan(/^\w+ (\d+) /).flatten.map(&:to_i)
  report same && sizes.uniq.all? { |size| size < 64 || size.to_s(2).sub(/0+$/, '').size <= 3 } &&
         output_of({}, MALLOCTAPE, 'verify', 'given').include?('consistent'),
         'calls stay as they are, unless sizes are to be rounded', sizes.uniq.first(20).map(&:to_s)
end
