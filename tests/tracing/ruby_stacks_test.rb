#!/usr/bin/env ruby
# ruby_stacks_test.rb - functions of Ruby in call stacks are those that the program has noted itself
# at the same allocations; what is no Ruby, or of an unknown version, does no harm; and what report and
# export say of them. Prints TAP.
#
# MALLOCTAPE_RUBY: the interpreter (default /usr/bin/ruby). MALLOCTAPE_CALLS: how many stacks are
# compared (default 400).

require 'json'
require 'tmpdir'

require_relative '../tap'
require_relative 'source_stacks'

RUBY = ENV.fetch('MALLOCTAPE_RUBY', '/usr/bin/ruby')
WITNESS = File.expand_path('../workloads/ruby_witness.rb', __dir__)
FAKE = File.join(BUILD, 'tests/workloads/fake_ruby.so')
CALLS = Integer(ENV.fetch('MALLOCTAPE_CALLS') { size(400, 20_000) })

def check_witness
  errors = record(%w[-q --stacks=all], RUBY, '--disable-gems', WITNESS, CALLS.to_s, 'notes')
  return report(false, 'stacks are those that Ruby notes itself', [errors]) unless errors.empty?

  noted = ->(path) { path.match?(%r{/ruby_witness.rb\z|/w_made|\A<w_|\Aw_eval\z|\A<internal:}) }
  wrong, count = differences(SourceStacks.new('raw.lz4', noted), 'notes')
  puts "# #{count - wrong.size} of #{count} stacks"
  report count >= CALLS && wrong.empty?, 'stacks are those that Ruby notes itself', wrong.first(5)
end

SERVER = <<~TEXT
  KEPT = []

  class Server
    def leak(request)
      KEPT << 'x' * 3000
    end

    def handle(request)
      leak(request)
      request.map { |number| 'y' * number }
    end
  end

  300.times { |i| Server.new.handle([i] * 5) }
TEXT

def folded_of(view)
  output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'folded', '--frames', view, '-o', '-', 'raw.lz4')
end

def check_report
  File.write('server.rb', SERVER)
  errors = record(%w[--stacks=all], RUBY, '--disable-gems', 'server.rb')
  functions = rows_of([], 'function', 'bytes')
  kept = functions.find { |name,| name == 'server.leak' }
  report kept && kept[1].end_with?('server.rb:5') && kept[2].between?(900_300, 960_000),
         'what a method keeps, and its line', [errors, *functions.first(3).map(&:to_s)]
  caller = functions.find { |name,| name == 'server.handle' }
  report caller && caller[3] > kept[3], 'its callers have it, too', [caller.to_s]
  native = rows_of(%w[--frames native], 'function', 'bytes').map(&:first)
  report native.none?(/server\./) && native.any?(/vm_exec/), 'native functions alone', native.first(5)
  report folded_of('interpreted').match?(/^server.<main>;server.block in <main>;server.handle;server.leak 9/),
         'functions of Ruby alone', folded_of('interpreted').lines.grep(/server/).first(3)
  _, _, status = Open3.capture3(MALLOCTAPE, 'report', 'raw.lz4', '--fail-if', 'bytes@server.leak>800000')
  report status.exitstatus == 6, 'a limit for a method', [status.to_s]
end

def check_fakes
  load = [File.join(BUILD, 'tests/workloads/load'), FAKE]
  ENV['FAKE_RUBY'] = '3.2.0'
  said = record(%w[--stacks=all], *load)
  ENV.delete('FAKE_RUBY')
  report said.include?('functions of this Ruby are not seen') && $printed == "300\n",
         'another version: a line', [said, $printed]
  said = record(%w[--stacks=all -q], *load)
  recorded = SourceStacks.new('raw.lz4')
  report said.empty? && $printed == "300\n" && recorded.calls[4711].size == 300, 'contexts that are anything',
         [said, $printed, recorded.calls[4711].size.to_s]
end

version, = Open3.capture2e(RUBY, '-v')
plan 8
Dir.mktmpdir do |directory|
  Dir.chdir(directory) do
    if version.start_with?('ruby 3.1.') && RUBY_PLATFORM.start_with?('x86_64')
      check_witness
      check_report
    else
      6.times { |i| report true, "test #{i + 1} # SKIP no Ruby 3.1" }
    end
    check_fakes
  end
end
