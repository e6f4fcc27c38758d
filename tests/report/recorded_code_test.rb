#!/usr/bin/env ruby
# frozen_string_literal: true

# recorded_code_test.rb - a program with known hot spots, recorded with its call stacks by both front
# ends: each is the first line of its table, with the right line of the source.

require 'json'
require 'net/http'
require 'socket'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
SOURCE = "#{__dir__}/hot_spots.cc"

def line_of(words) = File.readlines(SOURCE).index { |line| line.include?("/* #{words} */") } + 1

def compile(name, *options)
  output_of({}, 'g++', '-g', '-O1', '-std=gnu++17', '-pthread', '-w', *options, '-o', name, SOURCE)
end

def record(file, program, *options)
  output_of({}, MALLOCTAPE, 'record', '--quiet', *options, '-o', file, '--', "./#{program}")
end

# The row with most of a number, and its line.
def first(rows, key)
  at = rows['name'].each_index.max_by { |i| rows[key][i] }
  [rows['name'][at], rows['line'][at]]
end

def rows(*words)
  output_of({}, MALLOCTAPE, 'report', *words, '--json', 'report.json')
  JSON.parse(File.read('report.json'))['code']['rows']
end

HOT = { 'end_bytes' => ['take', 'taken here'], 'short_lived' => ['copies_text', 'copied here'],
        'remote_frees' => ['hands_over', 'handed here'], 'grown_bytes' => ['grows', 'grown here'] }
      .transform_values { |name, place| [name, line_of(place)] }

# What `go tool pprof -http` has for a path.
def page_of(profile, path)
  port = TCPServer.open('127.0.0.1', 0) { |server| server.addr[1] }
  pprof = spawn({ 'HOME' => Dir.pwd }, 'go', 'tool', 'pprof', '-no_browser', "-http=127.0.0.1:#{port}", profile,
                %i[out err] => File::NULL, pgroup: true)
  3000.times do
    return Net::HTTP.get(URI("http://127.0.0.1:#{port}/ui/#{path}"))
  rescue SystemCallError
    sleep 0.1
  end
ensure
  Process.kill(:TERM, -pprof)
  Process.wait(pprof)
end

# The lines of the source that have bytes there.
def lines_with_bytes(page)
  page.gsub(/<[^>]*>/, '').lines.filter_map { |line| line[/^ *(\d+) +(?:\.|\d\S*B) +\d\S*B/, 1]&.to_i }
end

def check_pprof
  text = '`go tool pprof -http`: the source of a function, the program as it was mapped'
  return report(true, "#{text} # SKIP needs go") unless system('go', 'version', %i[out err] => File::NULL)

  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'pprof', 'all.lz4', '-o', 'all.gz')
  told = lines_with_bytes(page_of('all.gz', 'source?f=^take$'))
  raw = output_of({ 'HOME' => Dir.pwd }, 'go', 'tool', 'pprof', '-raw', 'all.gz')
  code = output_of({}, 'readelf', '-lW', 'before').lines.find { |line| line.match?(/LOAD.* R E /) }.split
  mapped = raw[%r{^\d+: (0x\h+)/0x\h+/(0x\h+) \S*/before }, 0].to_s.scan(/0x\h+/).map(&:hex)
  report told == [line_of('taken here')] && mapped.values_at(0, 2) == code.values_at(2, 1).map(&:hex), text,
         [told.to_s, mapped.to_s, code.join(' ')]
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 9
  compile('before')
  compile('after', '-DCOPIES=2')

  { 'tcmalloc' => [], 'its own allocator' => ['--allocator=program'] }.each do |on, options|
    record('all.lz4', 'before', '--stacks=all', *options)
    all = rows('all.lz4')
    found = HOT.to_h { |key, _| [key, first(all, key)] }
    report found == HOT, "on #{on}: each hot spot is the first of its table", [found.to_s]
  end

  check_pprof
  record('frees.lz4', 'before', '--stacks=all,frees', '--allocator=program')
  with_frees = rows('frees.lz4')
  copies, hands = %w[copies_text hands_over].map { |name| with_frees['name'].index(name) }
  freer = with_frees['remote_freed_by'][hands]
  freed = with_frees['freed_remote'][with_frees['name'].index(freer) || 0]
  report with_frees['short_lived_freed_by'][copies] == 'copies_text' && freer.match?(/{lambda:\d+}$/) &&
         with_frees['remote_freed_share'][hands] == 1 && freed >= 12_000,
         'who frees: the same function, and that of another thread', [freer.to_s, freed.to_s]
  some = rows('all.lz4')
  at = some['name'].index('hands_over')
  report some['remote_freed_by'][at] == freer && some['freed_margin'].compact.any?,
         'the same where only some frees have stacks', [some['remote_freed_by'][at].to_s]

  total = rows('all.lz4')
  at = total['name'].index('leaks')
  report total['total_end_bytes'][at] >= 2000 * 500 && total['end_bytes'][at].zero?,
         'a function has what it calls asked for', [total['total_end_bytes'][at].to_s]

  record('after.lz4', 'after', '--stacks=all', '--allocator=program')
  limits = { 'objects@copies_text>+50%' => 6, 'objects@grows>+5%' => 0 }
  said = limits.keys.map do |limit|
    Open3.capture3(MALLOCTAPE, 'report', 'all.lz4', 'after.lz4', '--fail-if', limit)[2].exitstatus
  end
  report said == limits.values, '--fail-if of a function, over two builds', [said.to_s]

  # The C library says of such a program only where its code is.
  compile('holes', '-no-pie', '-Wl,--section-start=.text=0x8000000')
  record('holes.lz4', 'holes', '--stacks=all')
  all = rows('holes.lz4')
  found = HOT.to_h { |key, _| [key, first(all, key)] }
  report found == HOT, 'of a program with holes between its segments: the same', [found.to_s]

  record('sampled.lz4', 'before', '--stacks=16k')
  sampled = rows('sampled.lz4')
  found = HOT.slice('end_bytes', 'short_lived', 'remote_frees')
             .to_h { |key, _| [key, first(sampled, key)] }
  report found == HOT.slice(*found.keys), 'sampled: the same', [found.to_s]
end
