#!/usr/bin/env ruby
# frozen_string_literal: true

# faults_test.rb - a service with eight faults: each is in the first ten rows about code that a
# newcomer sees, with its line; with all call stacks, and with some.

require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
SOURCE = "#{__dir__}/faulty_service.cc"
FAULTS = { 'leak' => 'note', 'cache' => 'keep', 'cycle' => 'open_session', 'library' => 'greet',
           'growing' => 'prices_of', 'temporaries' => 'cell', 'buffer' => 'pack', 'fragments' => 'count' }
         .transform_values { |name| "#{name}  faulty_service.cc:" }.freeze
LINES = FAULTS.keys.to_h do |fault|
  [fault, File.readlines(SOURCE).index { |line| line.include?("/* fault: #{fault} */") } + 1]
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 4
  output_of({}, 'gcc', '-O1', '-shared', '-fPIC', '-o', 'libfaulty.so', "#{__dir__}/faulty_library.c")
  output_of({}, 'g++', '-g', '-O1', '-std=gnu++17', '-pthread', '-w', '-o', 'service', SOURCE, '-L.', '-lfaulty',
            '-Wl,-rpath,$ORIGIN')
  { 'all' => '300', '16384' => '1500' }.each do |stacks, requests|
    output_of({}, MALLOCTAPE, 'record', '--quiet', "--stacks=#{stacks}", '-o', "#{stacks}.lz4", '--',
              './service', requests)
    text = output_of({}, MALLOCTAPE, 'report', "#{stacks}.lz4")
    rows = text[/^functions to look at first\n((?:  .*\n)*)/, 1].to_s.lines
    missing = FAULTS.keys.reject do |fault|
      rows.first(10).any? { |row| row.match?(/\b#{FAULTS[fault]}#{LINES[fault]}\b/) }
    end
    report missing.empty?, "each fault is in the first ten rows, with its line: stacks=#{stacks}",
           missing + rows
  end
  output_of({}, 'strip', '-o', 'bare', 'service')
  output_of({}, MALLOCTAPE, 'record', '--quiet', '--stacks=all', '-o', 'bare.lz4', '--', './bare', '100')
  rows = output_of({}, MALLOCTAPE, 'report', 'bare.lz4')[/^functions to look at first\n((?:  .*\n)*)/, 1].to_s.lines
  report rows.size > 3 && rows.none?(/__libc_start|call_init/), 'what has no source does not count for libc', rows
  unless system('node --version', out: File::NULL) && Dir.exist?('/usr/share/javascript/chart.js')
    report true, 'and on the page # SKIP needs node and libjs-chart.js'
    exit
  end
  output_of({}, MALLOCTAPE, 'report', 'all.lz4', '--html', 'page.html')
  drawn = output_of({}, 'node', "#{__dir__}/../tools/run_page.js", 'page.html')
  rows = drawn[/^By code, functions to look at first:\n((?:  .*\n)*)/, 1].to_s.lines
  missing = FAULTS.keys.reject do |fault|
    rows.first(10).any? { |row| row.match?(/\b#{FAULTS[fault].sub('  ', ' \\| ')}#{LINES[fault]}\b/) }
  end
  report missing.empty?, 'and on the page', missing + rows
end
