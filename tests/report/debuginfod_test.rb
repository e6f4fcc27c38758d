#!/usr/bin/env ruby
# frozen_string_literal: true

# debuginfod_test.rb - a program without symbols, whose debug information only a debuginfod server has:
# report asks it for functions and lines if DEBUGINFOD_URLS says so, and does without it if that does
# not answer.

require 'json'
require 'net/http'
require 'socket'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
SOURCE = <<~C
  #include <stdlib.h>
  __attribute__((noinline)) static void *takes_much(size_t bytes)
  {
      void *volatile object = malloc(bytes); /* here */
      return object;
  }
  int main(void)
  {
      for (int i = 0; i < 100; i++)
          free(takes_much(1000));
      return 0;
  }
C
LINE = SOURCE.lines.index { |line| line.include?('here') } + 1
WAIT_S = 300

def has?(program) = ENV['PATH'].split(':').any? { |place| File.executable?("#{place}/#{program}") }

# The file and line of the function, as report says them; nil: it is in no table.
def place_of(function, urls)
  output_of({ 'DEBUGINFOD_URLS' => urls, 'DEBUGINFOD_CACHE_PATH' => "#{Dir.pwd}/cache", 'HOME' => Dir.pwd },
            'timeout', '300', MALLOCTAPE, 'report', 'raw.lz4', '--json', 'report.json')
  rows = JSON.parse(File.read('report.json'))['code']['rows']
  at = rows['name'].index(function)
  at && [File.basename(rows['file'][at]), rows['line'][at]]
end

# The debug information is in served/, what is recorded has none.
def make_program
  File.write('spots.c', SOURCE)
  Dir.mkdir('served')
  output_of({}, 'gcc', '-g', '-O1', '-w', '-Wl,--build-id', '-o', 'spots', 'spots.c')
  output_of({}, 'objcopy', '--only-keep-debug', 'spots', 'served/spots.debug')
  output_of({}, 'strip', '--strip-all', 'spots')
  output_of({}, 'readelf', '-n', 'spots')[/Build ID: (\h+)/, 1]
end

def free_port
  server = TCPServer.new('127.0.0.1', 0)
  server.addr[1].tap { server.close }
end

# Whether the server has found the file within that time.
def serves?(url, id)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + WAIT_S
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    answer = begin
      Net::HTTP.get_response(URI("#{url}/buildid/#{id}/debuginfo")).code
    rescue SystemCallError
      nil
    end
    return true if answer == '200'

    sleep 0.1
  end
  false
end

unless has?('debuginfod')
  puts '1..0 # SKIP no debuginfod'
  exit
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 3
  id = make_program
  output_of({}, MALLOCTAPE, 'record', '--quiet', '--stacks=all', '-o', 'raw.lz4', '--', './spots')
  port = free_port
  url = "http://127.0.0.1:#{port}"
  found = place_of('takes_much', url)
  report found.nil?, 'without an answer there is no name', [found.to_s]
  found = place_of('takes_much', '')
  report found.nil?, 'nor if no server is to be asked', [found.to_s]
  server = spawn('debuginfod', '-p', port.to_s, '-d', ':memory:', '-F', 'served', %i[out err] => 'server.log')
  begin
    found = serves?(url, id) && place_of('takes_much', url)
    report found == ['spots.c', LINE], 'with one, its function and line', [found.to_s, *File.readlines('server.log').last(3)]
  ensure
    Process.kill('TERM', server)
    Process.wait(server)
  end
end
