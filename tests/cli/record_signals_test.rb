#!/usr/bin/env ruby
# frozen_string_literal: true

# record_signals_test.rb - whoever sends a signal to `malloctape record` or to its process group, the
# program gets it once; and job control works as without record.

require 'fileutils'
require 'pty'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
COUNTER = "#{BUILD}/tests/workloads/count_signals"
SIGNALS = %w[INT TERM QUIT HUP TSTP CONT].freeze
ROUNDS = size(2, 10)
OPTIONS = ENV['MALLOCTAPE_FRONT_END'] ? ["--allocator=#{ENV['MALLOCTAPE_FRONT_END']}"] : []

def wait_until(what)
  30_000.times do
    return if yield
    sleep 0.01
  end
  raise "waited in vain for: #{what}"
end

# A program that counts, under record, started by `start`, which returns the process to wait for.
class Counted
  attr_reader :started

  def self.programs = @programs ||= []

  def self.command(*options)
    [MALLOCTAPE, 'record', *OPTIONS, '-o', options.include?('--follow') ? 'raw.%p.lz4' : 'raw.lz4', *options, '--',
     COUNTER, 'log']
  end

  def initialize(started)
    @started = started
    @expected = []
    wait_until('the program') { log[0].to_s.end_with?("\n") }
    self.class.programs << program
  end

  def log = File.exist?('log') ? File.readlines('log') : []
  def program = log[0][/\d+/].to_i
  def recorder = stat(program)[1].to_i
  def stat(process) = File.read("/proc/#{process}/stat")[/.*\) (.*)/, 1].split
  def state(process) = stat(process)[0]
  def group = stat(program)[2].to_i
  def got = log.drop(1).map(&:chomp)

  # Whatever record passes on of the signal, it does before this one, which has a higher number.
  def after(signal)
    yield
    @expected << signal
    wait_until("SIG#{signal}") { got.size >= @expected.size }
    Process.kill(:WINCH, recorder)
    @expected << 'WINCH'
    wait_until("SIGWINCH after SIG#{signal}") { got.size >= @expected.size && got.last == 'WINCH' }
  end

  # Ends it. What it got in excess, or nothing.
  def finish
    Process.kill(:USR2, program)
    Process.wait(@started)
    got == @expected ? [] : ["expected #{@expected.join(' ')}", "     got #{got.join(' ')}"]
  end
end

def in_directory
  Dir.mktmpdir { |directory| Dir.chdir(directory) { yield } }
rescue RuntimeError => e
  Counted.programs.each { |program| Process.kill(:KILL, program) }
  [e.message]
ensure
  Counted.programs.clear
end

def start(*command, **options) = Process.spawn(*command, out: File::NULL, err: File::NULL, **options)

# Each signal, sent by the block.
def each_signal(*command, signals: SIGNALS)
  in_directory do
    counted = Counted.new(start(*command, pgroup: true))
    (signals * ROUNDS).each { |signal| counted.after(signal) { yield(signal, counted) } }
    counted.finish
  end
end

# Of all processes of the group, as a service manager does it.
def kill_each(signal, counted)
  members = Dir.children('/proc').grep(/^\d+$/).select { |process| counted.stat(process)[2].to_i == counted.group rescue false }
  Process.kill(signal, *members.map(&:to_i))
end

def of_timeout
  in_directory do
    counted = Counted.new(start('timeout', '300', *Counted.command, pgroup: true))
    Process.kill(:TERM, counted.started)
    wait_until('SIGTERM and SIGCONT') { (%w[TERM CONT] - counted.got).empty? }
    Process.kill(:WINCH, counted.recorder)
    wait_until('SIGWINCH') { counted.got.last == 'WINCH' }
    Process.kill(:USR2, counted.program)
    Process.wait(counted.started)
    counted.got == %w[TERM CONT WINCH] ? [] : ["got #{counted.got.join(' ')}"]
  end
end

def of_terminal
  in_directory do
    output, input, process = PTY.spawn(*Counted.command)
    reader = Thread.new { loop { output.readpartial(4096) } rescue nil }
    counted = Counted.new(process)
    keys = { 'INT' => "\x03", 'QUIT' => "\x1c", 'TSTP' => "\x1a" }
    (keys.to_a * ROUNDS).each { |signal, key| counted.after(signal) { input.write(key) } }
    # The first process of the session alone is told that the terminal has gone.
    reader.kill.join
    output.close
    input.close
    wait_until('SIGHUP') { counted.got.include?('HUP') }
    failures = counted.got.count('HUP') == 1 ? [] : ["#{counted.got.count('HUP')} SIGHUP"]
    wait_until('SIGCONT') { counted.got.include?('CONT') }
    Process.kill(:USR2, counted.program)
    Process.wait(process)
    failures
  end
end

# Typed in a shell: ^Z stops both, and fg continues both.
def in_shell
  in_directory do
    output, input, shell = PTY.spawn({ 'PS1' => '$ ' }, 'bash', '--norc', '-i')
    said = +''
    Thread.new { loop { said << output.readpartial(4096) } rescue nil }
    input.write("#{Counted.command.join(' ')} stop\n")
    counted = Counted.new(shell)
    ROUNDS.times do
      recorder = counted.recorder
      said.clear
      input.write("\x1a")
      wait_until('the prompt') { said.include?('Stopped') && said.end_with?('$ ') }
      states = [counted.state(counted.program), counted.state(recorder)]
      return ["after ^Z: #{states.join}"] if states != %w[T T]

      counted.after('CONT') { input.write("fg\n") }
      counted.after('INT') { input.write("\x03") }
    end
    input.write("exit\n")
    counted.finish
  end
end

# Sent to record alone or to all, it stops the program and then record; so it is with what continues
# them.
def stopped_and_continued(&send)
  in_directory do
    counted = Counted.new(start(*Counted.command, 'stop', pgroup: true))
    recorder = counted.recorder
    ROUNDS.times do
      send.call('TSTP', counted)
      wait_until('both stopped') { counted.state(counted.program) == 'T' && counted.state(recorder) == 'T' }
      counted.after('CONT') { send.call('CONT', counted) }
    end
    counted.finish
  end
end

to_group = ->(signal, counted) { Process.kill(signal, -counted.group) }
to_record = ->(signal, counted) { Process.kill(signal, counted.recorder) }

REDIS = %w[/usr/bin /usr/local/bin].map { |directory| "#{directory}/redis-server" }.find { |path| File.executable?(path) }

# redis-server takes a second signal for impatience: it leaves without saving.
def redis_saves
  in_directory do
    output, input, process = PTY.spawn(MALLOCTAPE, 'record', *OPTIONS, '-o', 'raw.lz4', '--', REDIS, '--port', '0',
                                       '--unixsocket', 'socket', '--save', '3600 1', '--loglevel', 'notice')
    said = +''
    reader = Thread.new { loop { said << output.readpartial(4096) } rescue nil }
    wait_until('redis') { File.exist?('socket') && said.include?('eady to accept') }
    system('redis-cli', '-s', 'socket', 'set', 'key', 'value', out: File::NULL)
    yield input, process
    Process.wait(process)
    status = $?.exitstatus
    reader.join
    next [] if status.zero? && File.size?('dump.rdb')

    ["exit status #{status}, dump.rdb #{File.size?('dump.rdb') || 'missing'}", *said.lines.last(8)]
  end
end

# Whoever sends them one by one may lose the processor between two.
def again = (1..5).lazy.map { yield }.find(&:empty?) || ['never']

def repeat(times) = (1..times).flat_map { yield }

checks = {
  'signals to the group' => -> { each_signal(*Counted.command, &to_group) },
  'signals to record alone' => -> { each_signal(*Counted.command, &to_record) },
  'with --follow, to the group' => -> { each_signal(*Counted.command('--follow'), &to_group) },
  'with --follow, to record alone' => -> { each_signal(*Counted.command('--follow'), &to_record) },
  'to each process of the group' => -> { again { each_signal(*Counted.command) { |*with| kill_each(*with) } } },
  'to the group, of a shell without job control' =>
    -> { each_signal('sh', '-c', "trap '' #{SIGNALS.first(5).join(' ')}; #{Counted.command.join(' ')} & wait", &to_group) },
  'timeout sends it to record and to the group' => -> { repeat(ROUNDS) { of_timeout } },
  'typed at the terminal; and it goes' => -> { of_terminal },
  'job control of a shell' => -> { in_shell },
  'stopped and continued through the group' => -> { stopped_and_continued(&to_group) },
  'stopped and continued through record' => -> { stopped_and_continued(&to_record) }
}
if REDIS
  checks['redis-server saves: ^C at the terminal'] = -> { repeat(ROUNDS) { redis_saves { |input, _| input.write("\x03") } } }
  checks['redis-server saves: SIGINT to the group'] =
    -> { repeat(ROUNDS) { redis_saves { |_, recorder| Process.kill(:INT, -recorder) } } }
end
plan checks.size
checks.each do |text, check|
  failures = check.call
  report failures.empty?, text, failures
end
