#!/usr/bin/env ruby
# keep_test.rb - `record --keep`: the last moments of a program, whatever ended it, and what can be asked
# meanwhile. MALLOCTAPE_KILLS says how often it is killed.
require 'fileutils'
require 'json'
require 'socket'
require 'tmpdir'
require 'zlib'

require_relative 'kept_trace'

RUNS = Integer(ENV['MALLOCTAPE_KILLS'] || size(2, 200))
THREADS = 2
MANY = 1_000_000_000
PAUSE_US = 10_000
SLOW_US = 40_000 # where it takes long
KEEP_S = 0.15
FILE = 'n.kept.lz4'
$random = Random.new(Integer(ENV.fetch('MALLOCTAPE_SEED') { Random.new_seed % 1_000_000 }))

# Starts what ends with the test.
def start(*words, **streams) = spawn(*words, **streams).tap { |process| $started << process }

def record(*options, count: MANY, keep: KEEP_S.to_s, pause_us: PAUSE_US, leak: 0, **limits)
  File.write('counts', '')
  start(bin('malloctape'), 'record', '--keep', keep, '-o', FILE, *options, '--', NUMBERED, 'counts',
        THREADS.to_s, count.to_s, pause_us.to_s, leak.to_s, err: 'err', out: 'out', **limits)
end

# Processes of the test that runs: those of other tests have other directories.
def left
  Dir.children('/proc').grep(/\A\d+\z/).map(&:to_i).select do |process|
    process != Process.pid && File.readlink("/proc/#{process}/cwd") == Dir.pwd
  rescue SystemCallError
    false
  end
end

# A program that was left would go on for ever, with the output of this test open.
def end_started
  until (processes = left).empty?
    processes.each do |process|
      Process.kill(:KILL, process)
    rescue Errno::ESRCH
      nil
    end
    sleep 0.01
  end
  $started.each do |process|
    Process.wait(process)
  rescue Errno::ECHILD
    nil
  end
  $started.clear
end

def wait_until(what)
  30_000.times do
    result = yield
    return result if result

    sleep 0.01
  end
  raise Failure, "#{what}: never; #{File.read('err')}"
end

def done(file = 'counts') = File.size?(file) ? counts(file).sum { |count| count[:done] } : 0

# What should happen while a program runs came after its end.
class TooLate < Failure
end

# Of a program that ends by itself: where the machine is so busy that it has ended before, it takes longer
# the next time.
def while_it_runs
  [1, 10, 100].each do |times|
    return yield PAUSE_US * times
  rescue TooLate
    raise if times == 100

    end_started
    FileUtils.rm_rf(Dir['*'])
  end
end

def child_of(recorder, program)
  child = File.read("/proc/#{recorder}/task/#{recorder}/children").split.find do |one|
    File.readlink("/proc/#{one}/exe") == program
  rescue SystemCallError
    false
  end
  Integer(child || raise(TooLate, "#{program} has ended"))
end

# The process that runs, once it has made so many objects.
def process_of(recorder, objects)
  wait_until("#{objects} objects") { done >= objects }
  child_of(recorder, NUMBERED)
end

def keeper_of(recorder) = child_of(recorder, bin('malloctape-keep'))

# Waits for a segment, or that what is kept is complete.
def wait_for_segment(pattern) = wait_until('a segment') { Dir["#{FILE}.keep/#{pattern}"] != [] || File.exist?(FILE) }

def ended(recorder)
  Process.wait(recorder)
  $?.exitstatus
end

def verified(file)
  system(bin('malloctape'), 'verify', file, out: File::NULL, err: 'verify.err') || $?.exitstatus == 3 or
    raise Failure, "verify: #{File.read('verify.err')}"
end

def kept(file = FILE)
  raise Failure, "no #{file}: #{File.read('err')}" unless File.exist?(file)

  verified(file)
  KeptTrace.new(file, THREADS)
end

def check_kept
  trace = kept
  trace.check(counts('counts'))
  raise Failure, "#{FILE}.keep is left" if File.exist?("#{FILE}.keep")

  trace
end

# What is wrong, or nil.
def failure
  $started = []
  Dir.mktmpdir do |directory|
    Dir.chdir(directory) do
      ENV['TMPDIR'] = directory
      yield
      nil
    rescue Failure => e
      e.message
    ensure
      end_started
    end
  end
end

def test(text, &)
  problem = failure(&)
  report problem.nil?, text, [problem].compact
end

# A test that waits for most of its time, beside the others.
def slow_test(text, &)
  problem = IO.popen('-') || (print(failure(&)) || exit!(0))
  $slow << [text, problem]
end

def report_slow_tests
  $slow.each do |text, problem|
    said = problem.read
    problem.close
    report said.empty?, text, [said].reject(&:empty?)
  end
end

# A connection with one request.
def asking(path, method: 'GET', headers: '')
  UNIXSocket.new('socket').tap do |socket|
    socket.write("#{method} #{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n#{headers}\r\n")
  end
end

# A connection with the beginning of a request; nil: it has been ended already.
def silent(beginning)
  UNIXSocket.new('socket').tap { |socket| socket.write(beginning) }
rescue SystemCallError
  nil
end

# One request; the status and the body.
def ask(path, **request)
  asking(path, **request).then do |socket|
    head, body = socket.read.split("\r\n\r\n", 2)
    [head[/\d\d\d/].to_i, body]
  end
end

# The answer may be lost when the rest is not read.
def too_long
  ask('/', headers: "X: #{'x' * 40_000}\r\n")[0]
rescue Errno::ECONNRESET, Errno::EPIPE
  400
end

def varint(bytes)
  bytes.shift.then { |byte| byte < 128 ? byte : byte - 128 + (varint(bytes) << 7) }
end

# Fields of a message of protocol buffers: number and value.
def fields(bytes)
  all = []
  until bytes.empty?
    key = varint(bytes)
    all << [key >> 3, key & 7 == 2 ? bytes.shift(varint(bytes)) : varint(bytes)]
  end
  all
end

# Sums of a profile's samples by the name of their type, and the type that pprof shows.
def sums(pprof)
  profile = fields(Zlib.gunzip(pprof).bytes).group_by(&:first).transform_values { |all| all.map(&:last) }
  texts = profile[6].map { |text| text.pack('C*') }
  types = profile[1].map { |type| texts[fields(type).to_h[1]] }
  values = profile[2].map do |sample|
    packed = fields(sample).to_h[2]
    types.map { varint(packed) }
  end
  types.zip(values.transpose.map(&:sum)).to_h.merge('default' => texts[profile[14][0]])
end

plan 24

$slow = []
slow_test 'a condition that becomes true has a trace written' do
  recorder = record('--when', 'calls/s>1000', keep: '5m', pause_us: SLOW_US)
  wait_until('FILE.1') { File.exist?('n.kept.1.lz4') }
  Process.kill(:KILL, process_of(recorder, 1000))
  ended(recorder)
  raise Failure, File.read('err') unless kept('n.kept.1.lz4').calls.positive?

  check_kept
end

slow_test 'who has the memory, and which functions grow' do
  recorder = record('--stacks=all', '--listen', './socket', keep: '1m', pause_us: SLOW_US, leak: 20)
  process = process_of(recorder, 1000)
  wait_until('the socket') { File.socket?('socket') }
  wait_until('a first look') { ask('/metrics')[1].match?(/^malloctape_live_objects [1-9]/) }
  metrics = wait_until('growth') do
    sleep 0.5
    ask('/metrics')[1].then { |text| text if text.include?('malloctape_function_growth_bytes{') }
  end
  Process.kill(:KILL, process)
  ended(recorder)
  grown = metrics[/^malloctape_function_growth_bytes{function="numbered_run"} (\d+)$/, 1].to_i
  heap = metrics[/^malloctape_owner_rss_bytes{owner="heap"} (\d+)$/, 1].to_i
  raise Failure, metrics unless grown > 1000 && heap > 1000
end

slow_test 'top shows which functions allocate, and which grow' do
  recorder = record('--stacks=all', '--control', keep: '1m', pause_us: SLOW_US, leak: 20)
  process = process_of(recorder, 1000)
  text = +''
  IO.popen([bin('malloctape'), 'top', '--count', '60', process.to_s], in: File::NULL) do |top|
    text << top.gets.to_s until top.eof? || text.match?(/^grows/)
    Process.kill(:TERM, top.pid)
  end
  Process.kill(:KILL, process)
  ended(recorder)
  raise Failure, text unless text =~ /^churns .* %  numbered_run$/ && text =~ /^grows +\+.* MiB  numbered_run$/
end

slow_test 'record ends when it is asked to, although a keeper does not' do
  recorder, keeper = while_it_runs do |pause_us|
    recorder = record(count: 2000, pause_us:)
    wait_until('1000 objects') { done >= 1000 }
    keeper = keeper_of(recorder)
    Process.kill(:STOP, keeper)
    raise TooLate, 'the program has ended' if done == 2 * 2000

    [recorder, keeper]
  end
  wait_until('the end of the program') { File.read("/proc/#{recorder}/task/#{recorder}/children").split == [keeper.to_s] }
  Process.kill(:TERM, recorder) # it was meant for both
  sleep 1.2
  early = Process.wait(recorder, Process::WNOHANG)
  wait_until('the end of the recorder') do # which takes two signals that come at once for one
    Process.kill(:TERM, recorder)
    60.times.any? { sleep(0.02) && Process.wait(recorder, Process::WNOHANG) }
  end unless early
  status = $?.exitstatus unless early
  Process.kill(:CONT, keeper)
  wait_until('the end of the keeper') { !File.exist?("#{FILE}.keep") }
  check_kept
  raise Failure, "#{early} #{status} #{File.read('err')}" unless status == 125 && File.read('err').include?('goes on')
end

# A limit for the keeper's files is what a full disk is; its messages go to a file here, too. Of few
# segments nothing would be left but the last one, which may have nothing.
slow_test 'where nothing more can be written, what was kept stays, and becomes a trace later' do
  recorder = record(keep: '1')
  process = process_of(recorder, 1000)
  wait_until('segments') { Dir["#{FILE}.keep/*.lz4"].count { |file| File.size?(file).to_i > 1000 } >= 5 }
  keeper = keeper_of(recorder)
  system('prlimit', '--pid', keeper.to_s, '--fsize=1')
  wait_until('the end of the keeper') { !File.exist?("/proc/#{keeper}") }
  made = done
  wait_until('more objects') { done > made + 1000 }
  Process.kill(:KILL, process)
  raise Failure, File.read('err') if ended(recorder) != 137 || File.exist?(FILE)

  system(bin('malloctape-keep'), '--rescue', '-o', FILE, "#{FILE}.keep", err: 'err')
  trace = kept
  gap = trace.made.any? { |made| made.each_cons(2).any? { |a, b| b != (a + 1) % CYCLE } }
  raise Failure, "#{trace.calls} calls: #{File.read('err')}" if gap || trace.calls < 1000 || Dir['*.keep'] != []
end

test 'of a program that ends there are the last moments, complete' do
  while_it_runs do |pause_us| # the keeper may hardly run in that time
    status = ended(record(count: 16_000, pause_us:))
    trace = check_kept
    whole = counts('counts').sum { |count| count[:done] + count[:freed] }
    raise Failure, "status #{status}" unless status.zero?
    raise TooLate, "all #{whole} calls" unless trace.has_base && trace.calls < whole
    raise Failure, "#{trace.calls} of #{whole} calls" unless trace.calls > 1000
  end
end

test "killed, #{RUNS} times: complete to its last call" do
  RUNS.times do
    recorder = record
    process = process_of(recorder, 1000)
    sleep $random.rand(0.3)
    Process.kill(:KILL, process)
    raise Failure, 'status' unless ended(recorder) == 137

    check_kept
    raise Failure, "#{Dir['*.spool']} is left" unless Dir['*.spool'].empty?
    raise Failure, File.read('err') if File.read('err').include?('more records') # that is no problem
  end
end

test 'what is kept can be had while it goes on' do
  recorder = record
  process = process_of(recorder, 10_000)
  text = IO.popen([bin('malloctape'), 'ctl', process.to_s, 'keep', 'now.lz4'], &:read)
  Process.kill(:KILL, process)
  ended(recorder)
  trace = kept('now.lz4')
  gap = trace.made.any? { |made| made.each_cons(2).any? { |a, b| b != (a + 1) % CYCLE } }
  raise Failure, "#{trace.calls} calls: #{text}" if gap || !text.start_with?("#{trace.calls} events")

  check_kept
end

test 'pages and profiles while it goes on' do
  recorder = record('--stacks=all', '--listen', './socket')
  process = process_of(recorder, 1000)
  wait_until('the socket') { File.socket?('socket') }
  status, metrics = wait_until('live objects') do
    answer = ask('/metrics')
    answer if answer[1][/^malloctape_live_objects (\d+)/, 1].to_i >= 200
  end
  profile, pprof = ask('/debug/pprof/heap')
  trace, bytes = ask('/trace')
  others = [ask('/nothing')[0], ask('/metrics', method: 'POST')[0], too_long]
  Process.kill(:KILL, process)
  ended(recorder)
  check_kept
  File.binwrite('http.lz4', bytes)
  raise Failure, metrics unless status == 200 && metrics.end_with?("# EOF\n")
  heap = sums(pprof)
  raise Failure, "profile: #{profile}" unless profile == 200 && heap['inuse_objects'] >= 2 * 99
  raise Failure, "said: #{File.read('err')}" if File.read('err').match?(/pprof|page/)
  raise Failure, "default: #{heap}" unless heap['default'] == 'inuse_space'
  raise Failure, "trace: #{trace}" unless trace == 200 && kept('http.lz4').calls.positive?
  raise Failure, "others: #{others}" unless others[0] == 404 && others[1] == 405 && others[2] >= 400
end

ALIVE = %w[inuse_objects inuse_space].freeze
MADE = %w[alloc_objects alloc_space].freeze

# Sums of the profiles of what is alive and of what was made, and the numbers of a report.
def profiles_and_report
  heap = sums(ask('/debug/pprof/heap')[1])
  File.binwrite('http.lz4', ask('/trace')[1])
  allocs = sums(ask('/debug/pprof/allocs')[1])
  system(bin('malloctape'), 'report', '--json', 'report.json', 'http.lz4', out: File::NULL, err: File::NULL)
  [heap, allocs, JSON.parse(File.read('report.json'))['numbers']]
end

test 'the profile of what is alive has the sums of a report' do
  recorder = record('--stacks=all', '--listen', './socket')
  process = process_of(recorder, 15_000)
  wait_until('the socket') { File.socket?('socket') }
  wait_until('objects') { ask('/metrics')[1][/^malloctape_live_objects (\d+)/, 1].to_i >= 200 }
  Process.kill(:STOP, process)
  wait_until('all of it') { ask('/metrics') == [sleep(0.2), ask('/metrics')].last }
  said = nil
  same = 5.times.any? do # until the keeper has all that there is, which may take longer
    said = profiles_and_report
    said[0].values_at(*ALIVE) == said[2].values_at('end_objects', 'end_live') &&
      said[1].values_at(*ALIVE, *MADE) == said[2].values_at('end_objects', 'end_live', 'objects', 'bytes')
  end
  Process.kill(:KILL, process)
  ended(recorder)
  raise Failure, said.join(' ') unless same
end

test 'those who ask and do not read take little disk, and what they ask for goes when the program ends' do
  recorder = record('--listen', './socket')
  process = process_of(recorder, 1000)
  wait_until('the socket') { File.socket?('socket') }
  wait_until('a trace') { ask('/metrics')[1].match?(/^malloctape_live_objects [1-9]/) }
  slow = Array.new(6) { asking('/') }
  answers = slow.map { |socket| socket.read(12)[/\d+$/].to_i }
  slow.each(&:close)
  wait_until('an answer') { ask('/')[0] == 200 }
  made = asking('/')
  wait_until('its trace') { Dir["#{FILE}.keep/answer*"] != [] || made.wait_readable(0) }
  Process.kill(:KILL, process)
  ended(recorder)
  made.close
  check_kept
  raise Failure, "#{answers}" unless answers.count(200).between?(1, 4) && (answers - [200]).uniq == [503]
end

test 'those who connect, and ask for nothing, keep nobody out' do
  recorder = record('--listen', './socket')
  process = process_of(recorder, 1000)
  wait_until('the socket') { File.socket?('socket') }
  idlers = Array.new(120) { |i| silent(i.odd? ? 'G' : '') }.compact
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  status, = ask('/metrics')
  took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  Process.kill(:KILL, process)
  ended(recorder)
  idlers.each(&:close)
  check_kept
  raise Failure, "#{status} after #{took} s" unless status == 200 && took < 10
end

test 'a limit of few open files is raised' do
  recorder = record(rlimit_nofile: [20, 4096], keep: '5m')
  process = process_of(recorder, 1000)
  texts = Array.new(12) do # each begins a segment, of which two files are open
    IO.popen([bin('malloctape'), 'ctl', process.to_s, 'keep', 'now.lz4'], err: %i[child out], &:read)
  end
  Process.kill(:KILL, process)
  ended(recorder)
  raise Failure, texts.last unless texts.last.match?(/^\d+ events/)

  check_kept
end

test 'a program that ends before anything reads, or is never recorded, leaves nobody waiting' do
  recorder = start(bin('malloctape'), 'record', '--keep', '1m', '-o', FILE, '--', '/sbin/ldconfig', '--version',
                   out: 'out', err: 'err')
  wait_until('the end') { Process.wait(recorder, Process::WNOHANG) }
  raise Failure, "#{$?}: #{File.read('err')}" if $?.exitstatus != 125 || Dir['*.keep'] != []
end

test 'names of generated code stay beside what is kept' do
  script = 'echo "7f0000000000 10 made_up" >/tmp/perf-$$.map; (list=$(seq 300); list="$list $list"); :'
  %w[n.kept.lz4 n.%p.kept.lz4].each do |file|
    process = start(bin('malloctape'), 'record', '--keep', '1m', '--stacks', '-o', file, '--', 'sh', '-c',
                    "echo $$ >pid; #{script}", err: 'err')
    ended(process)
    number = File.read('pid').strip
    FileUtils.rm_f("/tmp/perf-#{number}.map")
    names = "#{file.sub('%p', number)}.perf.map"
    raise Failure, File.read('err') unless File.exist?(names) && File.read(names).include?('made_up')
  end
end

test 'what it starts, and is not recorded, is named' do
  system(bin('malloctape'), 'record', '--keep', '1m', '-o', FILE, '--', 'sh', '-c', 'env true; :', err: 'err')
  raise Failure, File.read('err') unless File.read('err').match?(/not recorded: use --follow$/)
end

test 'a keeper that had nothing yet leaves nothing' do
  Dir.mkdir("#{FILE}.keep")
  File.mkfifo("#{FILE}.keep/fifo")
  status = system(bin('malloctape-keep'), '--rescue', '-o', FILE, "#{FILE}.keep", err: 'err')
  raise Failure, File.read('err') if status || !Dir['n.*'].empty? || !File.read('err').include?('no segments')
end

test 'a keeper that is killed harms nobody, and record says so' do
  status = while_it_runs do |pause_us|
    recorder = record(count: 16_000, pause_us:)
    process_of(recorder, 1000)
    wait_for_segment('3.lz4')
    Process.kill(:KILL, keeper_of(recorder))
    raise TooLate, 'the program has ended' if done == 2 * 16_000

    ended(recorder)
  end
  raise Failure, "status #{status}, #{done} objects" unless status == 125 && done == 2 * 16_000
  raise Failure, File.read('err') unless File.read('err').include?('signal 9 has ended the keeper')

  trace = kept
  gap = trace.made.any? { |made| made.each_cons(2).any? { |a, b| b != (a + 1) % CYCLE } }
  left = Dir['*.keep'] + Dir['*.spool']
  raise Failure, "#{trace.calls} calls, #{left}" if gap || trace.calls.zero? || left != []
end

test 'without its directory the keeper ends, and harms nobody' do
  status = while_it_runs do |pause_us|
    recorder = record(count: 16_000, pause_us:)
    process_of(recorder, 1000)
    wait_for_segment('*.lz4')
    FileUtils.rm_rf("#{FILE}.keep")
    raise TooLate, 'the program has ended' if done == 2 * 16_000

    ended(recorder)
  end
  text = File.read('err')
  raise Failure, "status #{status}, #{done} objects" unless status == 125 && done == 2 * 16_000
  raise Failure, text unless text.scan('cannot make a segment').size == 1 && !text.include?('signal')
end

test 'the last moments of a process that runs already' do
  process = start(NUMBERED, 'counts', THREADS.to_s, MANY.to_s, PAUSE_US.to_s)
  wait_until('objects') { done > 1000 }
  recorder = start(bin('malloctape'), 'record', '--keep', KEEP_S.to_s, '-o', FILE, '--pid',
                   process.to_s, err: 'err')
  wait_until('recording') { File.exist?("#{FILE}.keep/3.lz4") || !File.exist?("/proc/#{recorder}") }
  Process.kill(:KILL, process)
  Process.wait(process)
  ended(recorder)
  trace = kept
  counts('counts').each_with_index { |count, thread| trace.check_made(thread, count) }
  raise Failure, File.read('err') if File.exist?("#{FILE}.keep")
end

# The keeper that a process has started.
def own_keeper_of(process)
  Dir['/proc/[0-9]*/cmdline'].find do |path|
    File.readlink(path.sub('cmdline', 'exe')) == bin('malloctape-keep') &&
      File.read(path).include?("--process\0#{process}\0")
  rescue SystemCallError
    false
  end.to_s[/\d+/].to_i
end

# Records three, and kills the keeper of the last one: what ctl said of the first one, and their numbers.
def three_with_keepers(pause_us)
  script = { 'a' => MANY, 'b' => 16_000, 'c' => 24_000 }.map do |file, count|
    "#{NUMBERED} #{file} #{THREADS} #{count} #{pause_us} & echo $! >>pids\n"
  end
  recorder = start(bin('malloctape'), 'record', '--keep', KEEP_S.to_s, '-o', '%p.kept.lz4', '--listen', './%p.socket',
                   '--', 'sh', '-c', "#{script.join}wait", err: 'err')
  wait_until('three keepers') { Dir['*.kept.lz4.keep/3.lz4'].size >= 3 && File.exist?('pids') || Dir['*.kept.lz4'] != [] }
  processes = File.readlines('pids', chomp: true)
  wait_until('objects') { done('a') > 10_000 }
  keeper = own_keeper_of(processes[2])
  Process.kill(:KILL, keeper) if keeper.positive?
  lost_in_time = keeper.positive? && done('c') < 2 * 24_000
  texts = IO.popen([bin('malloctape'), 'ctl', processes[0], 'keep', 'now.lz4'], &:read)
  sockets = processes.first(2).all? { |process| File.socket?("#{process}.socket") }
  raise TooLate, 'a program has ended' unless lost_in_time && done('b') < 2 * 16_000

  [recorder, texts, sockets, *processes]
end

test 'each process has a keeper: of one that is killed, one that ends, and one whose keeper is killed' do
  recorder, texts, sockets, killed, ended, lost = while_it_runs { |pause_us| three_with_keepers(pause_us) }
  wait_until('the end of one') { File.exist?("#{ended}.kept.lz4") }
  Process.kill(:KILL, killed.to_i)
  status = ended(recorder)
  raise Failure, "status #{status}: #{File.read('err')}" unless status.zero?

  kept('now.lz4')
  kept("#{killed}.kept.lz4").check(counts('a'))
  kept("#{ended}.kept.lz4").check(counts('b'))
  files = Dir['*.kept.lz4'].size # and that of sh; none of what sh has forked before it ran the others
  left = Dir["*.keep"] + Dir["*.spool"] + Dir["*.socket"] - ["#{lost}.socket"]
  raise Failure, "#{files}, #{left}, #{File.read('err')}" unless files == 4 && left == [] && done('c') == 48_000
  raise Failure, "#{texts} #{File.read('err')}" unless sockets && texts.match?(/^\d+ events/) &&
                                                    kept("#{lost}.kept.lz4").calls.positive?
end

# test_if(WHETHER, REASON, TEXT)
def test_if(good, reason, text, &) = good ? test(text, &) : skip(text, reason)

# In a container it is the first process. It looks five times a second, when it has a processor.
test_if Process.uid.zero? && system('unshare', '--pid', '--fork', '--mount-proc', 'true', err: File::NULL),
        'only root can', 'what is left of keepers whose parent has ended is taken' do
  script = "for i in 1 2 3; do (#{NUMBERED} a 1 2000 0 & #{NUMBERED} b 1 2000 0 &); done; #{NUMBERED} c 1 #{MANY} 10000 & " \
           'while ls *.keep | grep -q 1; do sleep 0.02; [ $(ls *.lz4 | wc -l) -ge 6 ] && break; done; sleep 0.3; ' \
           'for i in $(seq 600); do cat /proc/[0-9]*/stat | grep -c ") Z" >zombies; [ $(cat zombies) -lt 6 ] && break; ' \
           'sleep 0.1; done; kill %1'
  system('unshare', '--pid', '--fork', '--mount-proc', bin('malloctape'), 'record', '--keep', '10s', '-o', '%p.kept.lz4',
         '--', 'sh', '-c', script, err: 'err')
  raise Failure, "#{File.read('zombies')} #{Dir['*.lz4']} #{File.read('err')}" unless File.read('zombies').to_i < 6 && Dir['*.lz4'].size >= 12
end

# A file with nobody's rights is one that its user cannot open again; root can.
test_if Process.uid.zero? && system('setpriv', '--reuid=65534', '--clear-groups', 'test', '-x', bin('malloctape')),
        'only root can give up rights', 'a umask that leaves no rights keeps nothing from being recorded' do
  File.chmod(0o777, '.')
  [%w[--follow -o %e.%p.lz4], %w[--keep 10s -o one.lz4]].each do |options|
    system(*%w[setpriv --reuid=65534 --regid=65534 --clear-groups bash -c], 'umask 0777; exec "$@"', 'bash',
           bin('malloctape'), 'record', *options, '--', 'sh', '-c', 'ls >/dev/null', err: 'err')
  end
  files = Dir['*.lz4'].map { |file| file.sub(/\d+\.lz4/, 'N.lz4') }.sort
  raise Failure, "#{files} #{File.read('err')}" unless files == %w[ls.N.lz4 one.lz4 sh.N.lz4]

  Dir['*.lz4'].each { |file| verified(file) }
end

test 'what cannot be is refused' do
  { %w[--keep never] => 'TIME', %w[--keep 10m,0] => 'TIME', %w[--when rss>1G] => 'needs --keep',
    %w[--keep 1m --follow --listen 127.0.0.1:0] => 'socket of its own', %w[--keep 1m -o |cat] => 'one file',
    %w[--keep 1m --when rss] => 'rss>', %w[--keep 1m --follow --when live>+1/3x] => 'it goes on with',
    %w[--keep 1m --listen 0.0.0.0:0] => 'loopback' }.each do |options, text|
    status = system(bin('malloctape'), 'record', *options, '--', 'true', err: 'err')
    raise Failure, "#{options}: #{File.read('err')}" if status || !File.read('err').include?(text) ||
                                                       !Dir['true*'].empty?
  end
end

report_slow_tests
