# frozen_string_literal: true

# workloads - what is measured, in the order of the table, with its bars.
#
# A workload has a name, a text, bars, and
#   missing         why it cannot run here, or nil
#   prepare(dir)    writes its input there, before any time is taken
#   start(env, dir) a Run of it in that environment, which may write to that directory and has
#                   not had a turn yet; raises BenchError if it fails

require_relative 'measure'

# The bars: the largest ratios to plain tcmalloc, and bytes per event, that are allowed. What has no
# bar is measured and printed all the same. Bytes of churn are judged with 10 000 slots, for which
# the bar was set: with more objects, it takes more bits to name one.
CHURN_1_BARS = { wall_off: 1.04, wall_on: 1.5, cpu_on: 2.0 }.freeze
BARS = {
  'churn-1-1000' => CHURN_1_BARS,
  'churn-1-10000' => CHURN_1_BARS.merge(bytes: 2.1),
  'churn-1-100000' => CHURN_1_BARS,
  'churn-2-cross' => { wall_on: 1.7, bytes: 2.1 },
  'ring' => { wall_on: 2.0 },
  'circle' => { wall_on: 2.0 },
  'gcc' => { wall_on: 1.015, bytes: 0.48 },
  'sqlite' => { wall_on: 1.015, bytes: 0.05 },
  'redis' => { wall_on: 1.02 }
}.freeze

# The same for libmalloctape.so over another allocator; wall time of real programs if that is glibc.
BARS_OVER = {
  'churn-1-1000' => { wall_off: 1.1, wall_on: 1.7 },
  'churn-1-10000' => { wall_off: 1.1, wall_on: 1.7, bytes: 4.0 },
  'churn-1-100000' => { wall_off: 1.1, wall_on: 1.7 },
  'churn-2-cross' => { wall_on: 2.0 },
  'gcc' => { wall_on: 1.03, bytes: 1.2 },
  'sqlite' => { wall_on: 1.03 },
  'redis' => { wall_on: 1.03 }
}.freeze

# With call stacks: the same of `all`, and of `sampled`, which is compared with recording without.
BARS_STACKS = {
  'gcc' => { wall_all: 1.35, wall_sampled: 1.02 },
  'sqlite' => { wall_sampled: 1.02 },
  'redis' => { wall_all: 1.3, wall_sampled: 1.02 },
  'python' => { wall_sampled: 1.02 },
  'churn-1-depth' => { wall_all: 8.0, wall_sampled: 1.02 },
  'churn-2-cross' => { wall_sampled: 1.02 }
}.freeze

# A program that runs from start to end by itself.
class ProgramWorkload
  attr_reader :name, :text

  def initialize(name, text)
    @name = name
    @text = text
  end

  def missing = nil
  def prepare(dir) = @dir = dir
  def input = File::NULL
  def start(environment, dir) =
    Run.new(environment, command(dir), File.join(dir, "#{name}.log"), input:)
end

# One of our own small programs; each says at its head what it does.
class SmallProgram < ProgramWorkload
  def initialize(name, text, path, *arguments)
    super(name, text)
    @command = [path, *arguments.map(&:to_s)]
  end

  def missing
    "#{@command.first} is not built: make bench builds it" unless File.executable?(@command.first)
  end
  def command(_dir) = @command
end

# A program in PATH that is not a script: an allocator would be preloaded into its interpreter.
module Installed
  module_function

  def find(name)
    ENV.fetch('PATH', '').split(':').map { |dir| File.join(dir, name) }
       .find do |path|
         File.executable?(path) && File.file?(path) && File.binread(path, 4) == "\x7FELF".b
       end
  end

  # What `command` prints, in one line, or nil.
  def ask(*command)
    IO.popen(Child::CLEAN, command, err: File::NULL, &:read).lines.first&.strip
  rescue SystemCallError
    nil
  end
end

# The compiler proper on one preprocessed file, made from the standard headers of this machine and a
# little code that uses them, so that templates are instantiated and optimized, not just parsed.
class Gcc < ProgramWorkload
  HEADERS = %w[map string regex vector iostream unordered_map algorithm functional thread future
               random sstream].freeze
  CODE = File.join(__dir__, 'workloads/gcc.cc')

  def initialize(small)
    @headers = small ? HEADERS.first(2) : HEADERS
    @code = small ? '' : File.read(CODE)
    super('gcc', "cc1plus -O1 on #{@headers.join(' ')}#{', and code that uses them' unless small}")
  end

  def missing = compiler ? nil : 'g++ is not installed'
  def version = "g++ #{Installed.ask('g++', '-dumpfullversion')}"

  def prepare(dir)
    super
    source = File.join(dir, 'gcc.cc')
    File.write(source, text_of_source)
    Child.run(['g++', '-E', '-o', preprocessed, source], File.join(dir, 'gcc-preprocess.log'))
  end

  def command(dir) =
    [compiler, '-quiet', '-fpreprocessed', '-O1', '-o', File.join(dir, 'gcc.s'), preprocessed]

  private

  def text_of_source = [*@headers.map { |header| "#include <#{header}>\n" }, @code].join

  def preprocessed = File.join(@dir, 'gcc.ii')

  def compiler
    path = Installed.ask('g++', '-print-prog-name=cc1plus')
    @compiler ||= path if path && File.executable?(path) && path.start_with?('/')
  end
end

# The sqlite3 shell on a database in memory.
class Sqlite < ProgramWorkload
  def initialize(small)
    @rows = small ? 4_000 : 400_000
    super('sqlite', "sqlite3 :memory:, #{@rows} rows inserted, an index, four queries")
  end

  def missing = shell ? nil : 'sqlite3 is not installed'
  def version = "sqlite #{Installed.ask(shell, '--version')&.split&.first}"
  def command(_dir) = [shell, '-batch', '-bail', ':memory:']
  def input = File.join(@dir, 'sqlite.sql')

  def prepare(dir)
    super
    File.write(input, <<~SQL)
      CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < #{@rows})
        INSERT INTO t SELECT i, 'row ' || (i * 7919 % 100003), i / 3.0 FROM n;
      CREATE INDEX t_by_b ON t(b);
      SELECT count(*), sum(length(b)), max(c) FROM t;
      SELECT substr(b, 1, 6) AS p, count(*) FROM t GROUP BY p ORDER BY 2 DESC, 1 LIMIT 20;
      SELECT length(group_concat(b)) FROM (SELECT b FROM t WHERE a % 10 = 0 ORDER BY b);
      SELECT count(*) FROM t x JOIN t y ON x.b = y.b AND x.a < y.a;
    SQL
  end

  private

  def shell = @shell ||= Installed.find('sqlite3')
end

# Python's own objects, each taken from malloc, which is where --stacks can see them.
class Python < ProgramWorkload
  CODE = <<~PYTHON
    import json
    for i in range(%<rounds>d):
        rows = [{'name': 'row %%d' %% n, 'values': [n / 3, n * i]} for n in range(2000)]
        json.loads(json.dumps(rows))
  PYTHON

  def initialize(small)
    @rounds = small ? 3 : 150
    super('python', "python3, json.dumps and json.loads of 2000 rows, #{@rounds} times, " \
                    'PYTHONMALLOC=malloc')
  end

  def missing = python ? nil : 'python3 is not installed'
  def version = Installed.ask(python, '--version')
  def command(_dir) = [python, '-S', '-c', format(CODE, rounds: @rounds)]

  def start(environment, dir) = super(environment.merge('PYTHONMALLOC' => 'malloc'), dir)

  private

  def python = @python ||= Installed.find('python3')
end

# A redis-server, which is measured, and redis-benchmark, which drives it, without any preloaded
# library. Wall time is redis-benchmark's, CPU time is the server's.
class Redis
  NAME = 'redis'
  PROGRAMS = %w[redis-server redis-benchmark redis-cli].freeze

  def initialize(small)
    @turns = small ? 2 : 16
    @requests = small ? 8_000 : 100_000
    @paths = PROGRAMS.to_h { |name| [name, Installed.find(name)] }
  end

  def name = NAME

  def text
    "redis-server driven by redis-benchmark set,lpush,hset,zadd, #{@turns} times " \
      "#{@requests} requests each, -P 16, one socket"
  end

  def version = "redis #{Installed.ask(@paths['redis-server'], '--version')&.slice(/v=(\S+)/, 1)}"

  def missing
    absent = PROGRAMS.reject { |name| @paths[name] }
    "#{absent.join(' and ')} not installed" unless absent.empty?
  end

  def prepare(_dir) = nil
  def start(environment, dir) = RedisRun.new(@paths, @turns, @requests, environment, dir)
end

# One server and its loads, in one process group. In each turn it gets a new load, which ends by
# itself: after several busy processes are continued, they are spread over the processors only after
# some milliseconds, and later if one of them has one more thread.
class RedisRun < Run
  READY_SECONDS = 10

  def initialize(paths, turns, requests, environment, dir)
    @paths = paths
    @turns_left = turns
    @dir = dir
    @server = Child.start(environment, server_command, log('server'))
    super({}, benchmark_command(requests), log('benchmark'), group: @server)
    wait_until_ready
    Child.signal('STOP', @server)
  rescue StandardError, SignalException
    kill
    raise
  end

  def turn(_seconds)
    super(nil)
    @turns_left -= 1
    return pause if @turns_left.positive?

    ask('shutdown', 'nosave')
    cpu_before = Child.cpu_of_ended
    status = Process.wait2(@server).last
    times.cpu = Child.cpu_of_ended - cpu_before
    Child.check(status, server_command, log('server'))
    true
  end

  def kill
    super
    Child.kill(@server, @server) if @server
  end

  private

  # Until the next load. Not ended.
  def pause
    Child.signal('STOP', @server)
    @pid = nil
    false
  end

  def log(part) = File.join(@dir, "redis-#{part}.log")
  def socket = File.join(@dir, 'redis.socket')

  def server_command
    [@paths['redis-server'], '--port', '0', '--unixsocket', socket, '--save', '', '--appendonly',
     'no', '--daemonize',
     'no', '--dir', @dir]
  end

  def benchmark_command(requests)
    [@paths['redis-benchmark'], '-s', socket, '-q', '-t', 'set,lpush,hset,zadd', '-n',
     requests.to_s, '-P', '16']
  end

  def ask(*words) = Child.run([@paths['redis-cli'], '-s', socket, *words], log('cli'))

  def wait_until_ready
    deadline = Child.now + READY_SECONDS
    begin
      ask('ping')
    rescue BenchError
      raise BenchError, "redis-server does not answer\n#{Child.tail(log('server'))}" if
        Child.now > deadline

      sleep 0.05
      retry
    end
  end
end

# All workloads. `small`: a hundredth of the work, to see whether everything runs.
def workloads(build_dir, small)
  tests = File.join(build_dir, 'tests/workloads')
  bench = File.join(build_dir, 'bench/workloads')
  scaled = ->(number) { small ? number / 100 : number }
  steps = scaled[10_000_000]
  churn_1 = [1_000, 10_000, 100_000].map do |slots|
    SmallProgram.new("churn-1-#{slots}", "1 thread, #{slots} slots, #{steps} steps",
                     "#{tests}/churn", 1, slots, steps)
  end
  [
    *churn_1,
    SmallProgram.new('churn-2-cross',
                     "2 threads, 10000 slots, #{steps} steps each, one object in 16 changes hands",
                     "#{tests}/churn", 2, 10_000, steps, 'cross'),
    SmallProgram.new('producer', "one thread allocates, another frees: #{steps} objects",
                     "#{bench}/producer", steps),
    SmallProgram.new('ring', "one thread allocates, another frees, both at full speed: " \
                             "#{scaled[15_000_000]} objects of 1 to 1000 bytes",
                     "#{bench}/ring", scaled[15_000_000]),
    SmallProgram.new('circle', "four threads, each frees what another has allocated: " \
                               "#{scaled[5_000_000]} objects each",
                     "#{bench}/circle", 4, scaled[5_000_000]),
    SmallProgram.new('ping-pong',
                     "two threads, one object to and fro, #{scaled[2_000_000]} times each way",
                     "#{tests}/pingpong", 2, scaled[2_000_000]),
    SmallProgram.new('short-threads', "#{scaled[50_000]} threads, eight at a time, 50 objects each",
                     "#{tests}/threads", scaled[50_000]),
    SmallProgram.new('growth', "64 buffers grow by realloc, #{scaled[6_000_000]} steps",
                     "#{bench}/growth", scaled[6_000_000]),
    SmallProgram.new('big', "objects of 256 KiB to 4 MiB, #{scaled[500_000]} steps", "#{bench}/big",
                     scaled[500_000]),
    Gcc.new(small), Sqlite.new(small), Redis.new(small)
  ]
end

# Those by which it is measured what call stacks cost.
def stack_workloads(build_dir, small)
  churn = File.join(build_dir, 'tests/workloads/churn')
  steps = small ? 100_000 : 10_000_000
  chosen = workloads(build_dir, small).select { |workload| BARS_STACKS.key?(workload.name) }
  depth = SmallProgram.new('churn-1-depth', "1 thread, 10000 slots, #{steps} steps, 10 functions deep",
                           churn, '-d', 8, 1, 10_000, steps)
  [*chosen, Python.new(small), depth].sort_by { |workload| BARS_STACKS.keys.index(workload.name) }
end
