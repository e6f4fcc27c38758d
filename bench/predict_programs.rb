# frozen_string_literal: true

# predict_programs - real programs whose memory and time bench/predict compares with their replays.
#
# Each has a name, `threads` (whether more than one of its threads allocates), and
#   missing             why it cannot run here, or nil
#   prepare(dir)        writes its input there
#   run(env, dir, usage: FILE)   runs it in that environment; with `usage`, what it took is written
#                       there (workloads/usage.c). Raises BenchError if it fails

require 'json'
require_relative 'workloads'

# A program that runs from start to end by itself.
class PredictedProgram
  # Hashes of strings in the same order each time.
  SAME_EACH_TIME = { 'PYTHONHASHSEED' => '0', 'PERL_HASH_SEED' => '0',
                     'GIT_CONFIG_NOSYSTEM' => '1', 'LC_ALL' => 'C' }.freeze

  attr_reader :name, :text, :threads

  # The block writes the input; it is given the directory, which arguments name as DIR.
  def initialize(name, text, program, arguments, threads: false, environment: {}, &prepare)
    @name = name
    @text = text
    @program = program
    @arguments = arguments
    @threads = threads
    @environment = SAME_EACH_TIME.merge(environment)
    @prepare = prepare
  end

  def missing
    return "#{@program} is not installed" unless path
    return if File.executable?(path)

    "#{path} is not built: make predict builds it"
  end

  def prepare(dir)
    @dir = dir
    @prepare&.call(dir)
  end

  def run(environment, dir, usage: nil)
    command = [*usage, path, *@arguments.map { |word| word.gsub('DIR', @dir) }]
    log = File.join(dir, "#{name}.log")
    Child.run(command, log, @environment.merge('HOME' => @dir, **environment))
  end

  private

  def path = @path ||= @program.include?('/') ? @program : Installed.find(@program)
end

# One of bench/run's workloads.
class PredictedWorkload
  attr_reader :name, :text, :threads

  def initialize(workload)
    @workload = workload
    @name = workload.name
    @text = workload.text
    @threads = false
  end

  def missing = @workload.missing
  def prepare(dir) = @workload.prepare(dir)

  def run(environment, dir, usage: nil)
    command = [*usage, *@workload.command(dir)]
    log = File.join(dir, "#{name}.log")
    pid = Child.start(environment, command, log, input: @workload.input)
    Child.check(Process.wait2(pid).last, command, log)
  end
end

# redis-server with threads that read and write, which redis-benchmark drives.
class PredictedRedis
  READY_SECONDS = 10
  LOADS = [%w[-t set,hset,zadd -d 64], %w[-t set,lpush -d 400], %w[-t set,sadd -d 150]].freeze

  def initialize(small)
    @requests = small ? 2_000 : 30_000
    @server, @benchmark, @cli = Redis::PROGRAMS.map { |name| Installed.find(name) }
  end

  def name = 'redis'
  def text = "redis-server --io-threads 2, three loads of #{@requests} requests a command"
  def threads = true
  def prepare(_dir) = nil

  def missing
    "#{Redis::PROGRAMS.join(', ')} are not installed" unless @server && @benchmark && @cli
  end

  def run(environment, dir, usage: nil)
    @dir = dir
    command = [*usage, *server_command]
    log = File.join(dir, 'redis-server.log')
    pid = Child.start(environment, command, log)
    drive(log)
    Child.check(Process.wait2(pid).last, command, log)
    pid = nil
  ensure
    Child.kill(pid, pid) if pid
  end

  private

  def socket = File.join(@dir, 'redis.socket')

  def server_command
    [@server, '--port', '0', '--unixsocket', socket, '--save', '', '--appendonly', 'no',
     '--daemonize', 'no', '--dir', @dir, '--io-threads', '2', '--io-threads-do-reads', 'yes']
  end

  def drive(log)
    wait_until_ready(log)
    how = ['-s', socket, '-q', '-P', '16', '-r', @requests.to_s, '-n', @requests.to_s]
    LOADS.each do |load|
      Child.run([@benchmark, *how, *load], File.join(@dir, 'redis-benchmark.log'))
      ask('flushdb') unless load == LOADS.last
    end
    ask('shutdown', 'nosave')
  end

  def ask(*words) = Child.run([@cli, '-s', socket, *words], File.join(@dir, 'redis-cli.log'))

  def wait_until_ready(log)
    deadline = Child.now + READY_SECONDS
    begin
      ask('ping')
    rescue BenchError
      raise BenchError, "redis-server does not answer\n#{Child.tail(log)}" if Child.now > deadline

      sleep 0.05
      retry
    end
  end
end

# ---- input ----

# The same each time.
module PredictInput
  WORDS = %w[allocator thread cache span page slab arena chunk bin class size free list heap
             object].freeze

  module_function

  # Lines of numbers and words.
  def lines(path, count)
    random = Random.new(1)
    File.open(path, 'w') do |file|
      count.times do |i|
        words = Array.new(2 + random.rand(8)) { WORDS.sample(random:) }
        file.puts "#{random.rand(1_000_000)} #{i * 7919 % 100_003} #{words.join(' ')}"
      end
    end
  end

  def json(path, count)
    random = Random.new(1)
    records = Array.new(count) do |i|
      { 'id' => i, 'name' => "row #{random.rand(10_000)}", 'tags' => WORDS.sample(3, random:),
        'value' => random.rand,
        'nested' => { 'a' => [i, i + 1, i + 2],
                      'b' => WORDS.sample(random:) * (1 + random.rand(5)) } }
    end
    File.write(path, JSON.generate(records))
  end

  def xml(path, count)
    random = Random.new(1)
    File.open(path, 'w') do |file|
      file.puts '<rows>'
      count.times do |i|
        file.puts "<row id=\"#{i}\"><name>row #{random.rand(10_000)}</name><tags>" \
                  "<tag>#{WORDS.sample(random:)}</tag><tag>x</tag></tags>" \
                  "<value unit=\"m\">#{random.rand}</value></row>"
      end
      file.puts '</rows>'
    end
  end

  # A history in which files change a little at a time, for git fast-import.
  def history(path, commits)
    random = Random.new(1)
    files = Array.new(40) { Array.new(150) { WORDS.sample(4, random:).join(' ') } }
    File.open(path, 'w') do |file|
      commits.times { |number| file.write(commit(files, number, random)) }
    end
  end

  def commit(files, number, random)
    text = +"commit refs/heads/main\n"
    text << "committer A <a@example.org> #{1_600_000_000 + number} +0000\ndata 2\nc\n"
    Array.new(3) { random.rand(files.size) }.uniq.each do |at|
      file = files[at]
      10.times { file[random.rand(file.size)] = "#{WORDS.sample(random:)} #{random.rand(1000)}" }
      body = file.join("\n")
      text << "M 100644 inline file#{at}\ndata #{body.bytesize}\n#{body}\n"
    end
    text
  end

  # A repository with that history, each file whole.
  def repository(dir, commits)
    git = Installed.find('git')
    repository = File.join(dir, 'repository.git')
    history(File.join(dir, 'history'), commits)
    log = File.join(dir, 'git-prepare.log')
    return if File.exist?(repository)

    Child.run([git, 'init', '-q', '--bare', '-b', 'main', repository], log)
    import = [git, '-C', repository, 'fast-import', '--quiet', '--depth=0']
    pid = Child.start({}, import, log, input: File.join(dir, 'history'))
    Child.check(Process.wait2(pid).last, import, log)
  end
end

# ---- programs in scripting languages ----

PREDICT_PYTHON = <<~PYTHON
  import json, re, sys
  with open(sys.argv[1]) as file:
      records = json.load(file)
  by_name = {}
  for record in records:
      by_name.setdefault(record['name'], []).append(record)
  names = sorted(by_name, key=lambda name: (len(by_name[name]), name))
  words = [re.sub('[aeiou]', '', text) for name in names for text in by_name[name][0]['tags']]
  text = json.dumps(records, indent=1)
  del records, by_name
  print(len(words), len(text), len(set(text.split())))
PYTHON

PREDICT_PYTHON_THREADS = <<~PYTHON
  import json, sys, threading, zlib
  with open(sys.argv[1]) as file:
      text = file.read()
  results = []
  def work(number):
      for turn in range(3):
          records = json.loads(text)
          kept = [r for r in records if r['id'] % 4 == number]
          packed = [zlib.compress(json.dumps(r).encode()) for r in kept]
          results.append(packed)
          results.append([dict(r, seen=turn) for r in kept[::5]])
  threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
  for thread in threads: thread.start()
  for thread in threads: thread.join()
  print(sum(len(r) for r in results))
PYTHON

PREDICT_PERL = <<~'PERL'
  my (%count, @lines, %index);
  open(my $file, '<', $ARGV[0]) or die;
  while (my $line = <$file>) {
      chomp $line;
      my @fields = split / /, $line;
      $count{$_}++ for @fields;
      push @{$index{$fields[2]}}, { key => $fields[0], words => [@fields[2 .. $#fields]] };
      push @lines, join(',', reverse @fields);
  }
  my @sorted = sort { $a cmp $b } @lines;
  my $text = join("\n", map { s/a/aa/gr } @sorted);
  print scalar(keys %count), ' ', length($text), "\n";
PERL

PREDICT_RUBY = <<~RUBY
  lines = File.readlines(ARGV[0], chomp: true)
  groups = lines.group_by { |line| line.split[2] }
  tables = groups.transform_values { |of| of.map { |line| line.split.each_slice(2).to_a } }
  words = Hash.new(0)
  lines.each { |line| line.split.each { |word| words[word] += 1 } }
  text = tables.map { |name, rows| rows.map { |row| row.join('-' * 20) }.join(name) }.join
  puts words.size, text.size, text.scan(/\\d+/).size
RUBY

PREDICT_JQ = <<~JQ
  group_by(.name)
  | map({name: .[0].name, n: length, sum: (map(.value) | add), tags: (map(.tags[]) | unique)})
  | sort_by(.n) | .[].name
JQ

PREDICT_PYTHON_OBJECTS = <<~PYTHON
  import sys
  class Node:
      def __init__(self, key, words):
          self.key, self.words, self.less, self.more = key, words, None, None
  root = Node(500000, [])
  with open(sys.argv[1]) as file:
      for line in file:
          key, _, *words = line.split()
          node = root
          while node.key != int(key):
              step = 'less' if int(key) < node.key else 'more'
              if getattr(node, step) is None:
                  setattr(node, step, Node(int(key), words))
              node = getattr(node, step)
  def walk(node):
      if node is None: return
      yield from walk(node.less)
      yield node.key, '-'.join(node.words)
      yield from walk(node.more)
  print(len(dict(walk(root))))
PYTHON

PREDICT_BASH = <<~'BASH'
  declare -A count
  lines=()
  while read -r number key rest; do
    words=($rest)
    count[${words[0]}]=$((${count[${words[0]}]:-0} + number % 7))
    lines+=("${words[*]^^} $key")
  done < "$1"
  text=
  for line in "${lines[@]:0:4000}"; do text+="${line// /_}"$'\n'; done
  echo ${#count[@]} ${#text}
BASH

PREDICT_CMAKE = <<~'CMAKE'
  file(STRINGS ${INPUT} lines)
  foreach(line IN LISTS lines)
    string(REPLACE " " ";" fields "${line}")
    list(GET fields 2 word)
    string(TOUPPER "${line}" upper)
    string(APPEND text_${word} "${upper};")
  endforeach()
  foreach(word allocator thread cache span)
    list(SORT text_${word})
    list(LENGTH text_${word} count)
    message(STATUS "${word} ${count}")
  endforeach()
CMAKE

PREDICT_VIM = <<~VIM
  let groups = {}
  for line in readfile('DIR/in.txt')
    let fields = split(line)
    if !has_key(groups, fields[2]) | let groups[fields[2]] = [] | endif
    call add(groups[fields[2]], map(fields[2:], 'toupper(v:val)'))
  endfor
  call writefile([string(len(groups))], '/dev/null')
  qa!
VIM

# ---- all of them ----

def predict_scripts(small)
  json = ->(dir) { PredictInput.json(File.join(dir, 'in.json'), small ? 500 : 40_000) }
  less = ->(dir) { PredictInput.json(File.join(dir, 'in.json'), small ? 500 : 10_000) }
  lines = ->(dir) { PredictInput.lines(File.join(dir, 'in.txt'), small ? 2_000 : 150_000) }
  [
    PredictedProgram.new('python', 'python3: JSON, a table, regular expressions', 'python3',
                         ['-c', PREDICT_PYTHON, 'DIR/in.json'], &json),
    PredictedProgram.new('python-threads', 'python3, four threads, PYTHONMALLOC=malloc', 'python3',
                         ['-c', PREDICT_PYTHON_THREADS, 'DIR/in.json'], threads: true,
                         environment: { 'PYTHONMALLOC' => 'malloc' }, &less),
    PredictedProgram.new('perl', 'perl: hashes, an index, a sort', 'perl',
                         ['-e', PREDICT_PERL, 'DIR/in.txt'], &lines),
    PredictedProgram.new('ruby', 'ruby: strings, groups, a scan', 'ruby',
                         ['--disable=gems', '-e', PREDICT_RUBY, 'DIR/in.txt'], &lines),
    PredictedProgram.new('jq', 'jq: groups of an array', 'jq', [PREDICT_JQ, 'DIR/in.json'], &json)
  ]
end

# Programs that spend much of their time in the allocator.
def predict_allocating(small)
  lines = ->(dir) { PredictInput.lines(File.join(dir, 'in.txt'), small ? 500 : 25_000) }
  more = ->(dir) { PredictInput.lines(File.join(dir, 'in.txt'), small ? 500 : 60_000) }
  xml = ->(dir) { PredictInput.xml(File.join(dir, 'in.xml'), small ? 1_000 : 200_000) }
  script = lambda do |name, text, input|
    lambda do |dir|
      input.call(dir)
      File.write(File.join(dir, name), text.gsub('DIR', dir))
    end
  end
  [
    PredictedProgram.new('bash', 'bash: words, an index, replacements', 'bash',
                         ['-c', PREDICT_BASH, 'bash', 'DIR/in.txt'], &lines),
    PredictedProgram.new('cmake', 'cmake: lists and strings of a script', 'cmake',
                         %w[-DINPUT=DIR/in.txt -P DIR/in.cmake],
                         &script['in.cmake', PREDICT_CMAKE, more]),
    PredictedProgram.new('vim', 'vim: a script with lists', 'vim',
                         %w[-es -u NONE -i NONE -S DIR/in.vim],
                         &script['in.vim', PREDICT_VIM, more]),
    PredictedProgram.new('xmllint', 'xmllint: a tree of a file', 'xmllint',
                         %w[--noout DIR/in.xml], &xml),
    PredictedProgram.new('python-objects', 'python3: a tree, PYTHONMALLOC=malloc', 'python3',
                         ['-c', PREDICT_PYTHON_OBJECTS, 'DIR/in.txt'],
                         environment: { 'PYTHONMALLOC' => 'malloc' }, &more)
  ]
end

def predict_git(small)
  history = ->(dir) { PredictInput.repository(dir, small ? 20 : 3_000) }
  git = %w[-C DIR/repository.git]
  pack = %w[pack-objects --threads=2 --window=30 --no-reuse-delta --no-reuse-object --revs --all
            --stdout -q]
  [
    PredictedProgram.new('git-log', 'git log --stat of a history', 'git', [*git, 'log', '--stat'],
                         &history),
    PredictedProgram.new('git-pack', 'git pack-objects with two threads', 'git', [*git, *pack],
                         threads: true, &history)
  ]
end

def predict_tools(build_dir, small)
  sessions = File.join(build_dir, 'bench/workloads/sessions')
  requests = File.join(build_dir, 'bench/workloads/requests')
  lines = ->(dir) { PredictInput.lines(File.join(dir, 'in.txt'), small ? 2_000 : 250_000) }
  fewer = ->(dir) { PredictInput.lines(File.join(dir, 'in.txt'), small ? 2_000 : 120_000) }
  [
    PredictedProgram.new('sort', 'sort with two threads', 'sort',
                         %w[--parallel=2 -k3 -o DIR/sorted DIR/in.txt], threads: true, &lines),
    PredictedProgram.new('xz', 'xz with two threads', 'xz',
                         %w[-3 -T2 --block-size=2MiB -k -f DIR/in.txt], threads: true, &fewer),
    PredictedProgram.new('sessions', 'four threads that serve sessions', sessions,
                         ['4', small ? '2000' : '200000'], threads: true),
    PredictedProgram.new('requests', 'eight threads that serve requests, and rest', requests,
                         ['8', small ? '2' : '40'], threads: true)
  ]
end

def predicted_programs(build_dir, small)
  [PredictedWorkload.new(Gcc.new(small)), PredictedWorkload.new(Sqlite.new(small)),
   *predict_scripts(small), *predict_allocating(small), PredictedRedis.new(small),
   *predict_git(small), *predict_tools(build_dir, small)]
end
