#!/usr/bin/env ruby
# python_stacks_test.rb - functions of Python in call stacks are those that the program has noted
# itself at the same allocations; what is no Python, or of an unknown version, does no harm; and
# what report and export say of them. Prints TAP.
#
# MALLOCTAPE_PYTHON: the interpreter (default python3). MALLOCTAPE_CALLS: how many stacks are
# compared (default 800).

require 'json'
require 'tmpdir'

require_relative '../tap'
require_relative 'source_stacks'

WORKLOADS = File.expand_path('../workloads', __dir__)
FAKE = File.join(BUILD, 'tests/workloads/fake_python')
PYTHON = ENV.fetch('MALLOCTAPE_PYTHON', '/usr/bin/python3')
CALLS = Integer(ENV.fetch('MALLOCTAPE_CALLS') { size(800, 20_000) })

def check_witness
  program = File.join(WORKLOADS, 'python_witness.py')
  errors = record(%w[-q --stacks=all], PYTHON, program, CALLS.to_s, 'notes')
  return report(false, 'stacks are those that Python notes itself', [errors]) unless errors.empty?

  wrong, count = differences(SourceStacks.new('raw.lz4'), 'notes')
  puts "# #{count - wrong.size} of #{count} stacks"
  report count >= CALLS && wrong.empty?, 'stacks are those that Python notes itself', wrong.first(5)
end

SERVER = <<~TEXT
  import json
  kept = []


  def leak(request):
      kept.append(bytearray(3000))


  def handle(request):
      leak(request)
      return json.loads(json.dumps(request))


  class Handler:
      def handle(self, request):
          return handle(request)


  for i in range(300):
      Handler().handle({'number': [i] * 500})
TEXT

def check_report
  File.write('server.py', SERVER)
  errors = record(%w[--stacks=all], PYTHON, 'server.py')
  functions = rows_of([], 'function', 'bytes')
  kept = functions.find { |name,| name == 'server.leak' }
  report kept && kept[1].end_with?('/server.py:6') && kept[2].between?(900_300, 960_000),
         'what a function of Python keeps, and its line', [errors, *functions.first(3).map(&:to_s)]
  caller = functions.find { |name,| name == 'server.Handler.handle' }
  report caller && caller[3] > kept[3], 'its callers have it, too', [caller.to_s]
  names = ->(which) { rows_of(['--frames', which], 'function', 'bytes').map(&:first) }
  native = names['native']
  report native.none?(/server\./) && native.any?(/EvalFrameDefault/), 'native functions alone',
         native.first(5)
  folded = output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'folded', '--frames', 'interpreted', '-o', '-',
                     'raw.lz4')
  report folded.include?("server.<module>;server.Handler.handle;server.handle;server.leak 9"),
         'Python functions alone', folded.lines.grep(/server/).first(3)
  _, _, status = Open3.capture3(MALLOCTAPE, 'report', 'raw.lz4', '--fail-if', 'bytes@server.leak>800000')
  _, _, other = Open3.capture3(MALLOCTAPE, 'report', 'raw.lz4', '--fail-if', 'bytes@server.leak>1000000')
  report status.exitstatus == 6 && other.exitstatus.zero?, 'a limit for a function of Python',
         [status.to_s, other.to_s]
end

def check_part
  output_of({}, MALLOCTAPE, 'cut', 'raw.lz4', '-o', 'part.lz4', '--from', '2000calls')
  folded = output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'folded', '--frames', 'interpreted', '-o', '-',
                     'part.lz4')
  report folded.include?('server.<module>;server.Handler.handle;server.handle;server.leak 9'),
         'a part of the trace has them, too', folded.lines.grep(/server/).first(3)
end

# Each stack branches off another one somewhere.
TREE = <<~TEXT
  def visit(depth, path):
      if depth == 0: return bytearray(1000)
      if path >> depth & 1:
          return visit(depth - 1, path)
      return visit(depth - 1, path)


  for i in range(4000): visit(60, i * 0x9e3779b97f4a7c15)
TEXT

def check_tree
  said = record(%w[-q --stacks=all], PYTHON, '-c', TREE)
  nodes = output_of({}, MALLOCTAPE, 'dump', 'raw.lz4').scan(/define nodes (\d+) parent (\d+) codes (.*)/)
  nodes = nodes.flat_map do |first, parent, codes|
    codes.split.each_with_index.map { |code, i| [i.zero? ? parent.to_i : first.to_i + i - 1, code] }
  end
  own = output_of({}, MALLOCTAPE, 'info', 'raw.lz4')[/^peak RSS .* ([\d.]+) MiB of it the recorder's/, 1].to_f
  report nodes.size > 150_000 && nodes.uniq.size == nodes.size && own.between?(1, 8),
         'no stack is defined twice, and a node takes little memory', [said, nodes.size, nodes.uniq.size, own].map(&:to_s)
end

def check_objects
  calls = lambda do |*words|
    errors = record([*words, '--stacks'], PYTHON, '-c', 'x = [str(i) for i in range(30000)]')
    [errors[/(\d+) events/, 1].to_i, errors]
  end
  arenas, = calls.call
  objects, errors = calls.call('--python-objects')
  report objects > arenas + 30_000 && errors.include?('PYTHONMALLOC=malloc'),
         'each object, if it is asked for', [arenas, objects, errors].map(&:to_s)
end

def check_fakes
  said = record(%w[--stacks=all], FAKE, 'version', '0x030e00f0')
  report said.include?('Python 3.14 are not seen') && $printed == "2\n", 'another version: a line',
         [said]
  said = record(%w[--stacks=all], "#{FAKE}_data")
  report said.include?('are not seen') && $printed == "1\n",
         'data with the names of functions is not called', [said]
  said = record(%w[-q --stacks=all], File.join(BUILD, 'tests/workloads/load'), "#{FAKE}_library.so")
  _, errors, status = Open3.capture3(MALLOCTAPE, 'verify', 'raw.lz4')
  report status.success? && $printed == "0\n", 'what may allocate is not asked in the middle of a call',
         [said, $printed, errors]
  rounds = size(150, 3000)
  said = (1..2).map { |seed| [record(%w[-q --stacks=all], FAKE, 'garbage', seed.to_s, rounds.to_s), $printed] }
  recorded = SourceStacks.new('raw.lz4')
  report said.all?(['', "#{2 * rounds}\n"]) && recorded.calls[4711].size == 2 * rounds &&
         recorded.names.values.include?('fake'),
         'states of threads that are anything', said.map(&:to_s)
end

version, = Open3.capture2e(PYTHON, '-V')
plan 13
Dir.mktmpdir do |directory|
  Dir.chdir(directory) do
    if version =~ /Python 3\.1[123]\./
      check_witness
      check_report
      check_part
      check_tree
      check_objects
    else
      9.times { |i| report true, "test #{i + 1} # SKIP no Python 3.11 to 3.13" }
    end
    check_fakes
  end
end
