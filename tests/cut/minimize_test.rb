#!/usr/bin/env ruby
# frozen_string_literal: true

# minimize_test.rb - `malloctape cut --minimize`: what still shows it; `export --to c`: a program that
# makes the same calls; `cut --thin`: fewer objects.

require 'json'
require 'open3'
require 'tmpdir'
require_relative 'traces'

def cut(trace, part, *options)
  Open3.capture3(MALLOCTAPE, 'cut', trace, '-o', part, *options)
end

def calls_of(path) = output_of({}, MALLOCTAPE, 'dump', '--only-calls', path).lines(chomp: true)

# Whether a dump has two lines, in this order.
def shows(first, second) = "#{MALLOCTAPE} dump --only-calls %s | sed -n '/^#{first}/,$p' | grep -q '^#{second}'"

def json_of(path) = JSON.parse(output_of({}, MALLOCTAPE, 'info', '--json', '-', path))

plan 21

Dir.mktmpdir('malloctape-minimize') do |directory|
  Dir.chdir(directory)
  simulate('whole', 11, 700, 'threads=3', 'exits=20')
  _, errors, status = cut('whole', 'small', '--minimize', shows('realloc_moved ', 'free '))
  small = calls_of('small')
  report status.success? && small.size <= 4 &&
         output_of({}, MALLOCTAPE, 'verify', 'small').include?('consistent'),
         'what is left is what it needs', [errors, *small]

  before = File.mtime('small')
  _, again, = cut('whole', 'small', '--minimize', shows('realloc_moved ', 'free '))
  report again.include?('goes on from small') && calls_of('small').size <= small.size && File.mtime('small') >= before,
         'the same command goes on from what it left', [again]

  _, not_shown, failed = cut('whole', 'none', '--minimize', "grep -q nothing_has_this %s")
  words = [['--minimize', 'no trace'], ['--minimize', 'rss nowhere glibc 1'], ['--minimize', 'x %s', '--from', '1s'],
           ['--thin', '2', '--sizes', '1'], ['--time', '5']].map { |word| cut('whole', 'none', *word)[2].exitstatus }
  report failed.exitstatus == 1 && not_shown.include?('does not show it') && words == [2] * 5 && !File.exist?('none'),
         'what does not show it is refused', [not_shown, words.inspect]

  _, errors, status = cut('whole', 'less', '--minimize', 'rss glibc glibc 0.5', '--time', '1')
  report status.success? && calls_of('less').size < calls_of('whole').size, 'a predicate that is built in', [errors]

  # What shows it only by a huge page shows it with these; all else without, unless the setting says so.
  File.write('told.c', <<~LIBRARY)
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((constructor)) static void tell(void) {
      FILE *file = fopen("told", "a");
      fprintf(file, "%s ", getenv("REPLAY_THP") ? getenv("REPLAY_THP") : "system");
      fclose(file);
    }
  LIBRARY
  output_of({}, *%w[cc -shared -fPIC told.c -o told.so])
  told = ['./told.so glibc 1e9', './told.so:REPLAY_THP=madvise glibc 1e9'].map { |what|
    FileUtils.rm_f('told')
    cut('whole', 'none', '--minimize', "rss #{what}")
    File.read('told').split.uniq
  }
  report told == [%w[never system], %w[madvise]], 'memory is judged without huge pages first', [told.inspect]

  _, none, failed = cut('whole', 'empty', '--minimize', ': %s')
  report failed.exitstatus == 1 && none.include?('without any call') && !File.exist?('empty'), 'what needs no call is refused', [none]

  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  _, errors, status = cut('whole', 'hung', '--time', '1', '--minimize', 'test -e judged && { exec sleep 50; }; touch judged; : %s')
  report status.success? && Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 30 && calls_of('hung').size == calls_of('whole').size,
         'candidates that hang when time is over are ended', [errors]

  # An allocator that loses a page after three sizes in a row; the trace has thousands of objects.
  output_of({}, *%w[cc -O1 -shared -fPIC -fno-builtin -o faulty.so], "#{__dir__}/faulty.c")
  simulate('many', 6, 6_000, 'threads=3', 'exits=20')
  fault = { 'FAULT' => 'page', 'LD_PRELOAD' => "#{Dir.pwd}/faulty.so" }
  lost = "env FAULT_SHOWN=%s.shown LD_PRELOAD=./faulty.so FAULT=page #{BUILD}/bin/replay -q %s 2>/dev/null && rm %s.shown 2>/dev/null"
  _, errors, status = cut('many', 'few', '--minimize', lost)
  few = calls_of('few').grep_v(/thread_/)
  report status.success? && few.size == 3 && few.all? { |call| call.start_with?('malloc ') },
         'of the fault of an allocator, the three calls that show it', [errors, *few]

  output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'c', 'few', '-o', 'few.c')
  output_of({}, *%w[cc -std=c11 -O1 -pthread few.c -o few.program])
  output_of(fault.merge('FAULT_SHOWN' => 'shown'), './few.program')
  report File.exist?('shown'), 'a C program shows it, too'

  cut('whole', 'nothing', '--to', '0calls')
  built, ran = %w[whole nothing].map { |trace|
    output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'c', trace, '-o', 'bug.c')
    built, = Open3.capture2e(*%w[cc -std=c11 -Wall -Wextra -pedantic -Werror -O0 -pthread bug.c -o program])
    ran, status = built.empty? ? Open3.capture2e('./program') : ['', nil]
    [built, status&.success? ? ran : 'failed']
  }.transpose
  report ran.all?(/\Apeak RSS [1-9]\d* KiB/), 'a C program, without warnings, that prints RSS, also of no calls', [*built, *ran]

  File.write('tasks.h', <<~C)
    #include <dirent.h>
    #include <stdio.h>
    static int tasks(void)
    {
        int count = -2; /* . and .. */
        for (DIR *all = opendir("/proc/self/task"); readdir(all) != NULL;)
            count++;
        return printf("%d threads\\n", count);
    }
    #define printf(...) (printf(__VA_ARGS__), tasks())
  C
  output_of({}, MALLOCTAPE, 'export', '-q', '--to', 'c', 'whole', '-o', 'bug.c')
  output_of({}, *%w[cc -std=c11 -O1 -pthread -include tasks.h bug.c -o program])
  threads = output_of({}, './program')[/(\d+) threads/, 1].to_i
  report threads == json_of('whole')['lanes'] + 1, 'its threads stay to the end, as those of the program', [threads.to_s]

  # What takes the bytes of hundreds of objects, few large ones show.
  bytes = "#{MALLOCTAPE} report --json - %s | grep -qE 'peak_live.: ([5-9][0-9]{5}|[0-9]{7})'"
  _, errors, status = cut('many', 'large', '--minimize', bytes)
  large = calls_of('large').grep(/^malloc /)
  report status.success? && large.size == 1, 'fewer objects, but larger', [errors, *large]

  cut('whole', 'thin', '--thin', '4')
  thin = json_of('thin')['events']
  factor = output_of({}, MALLOCTAPE, 'dump', 'thin')[/thin=(\S+)/, 1].to_f
  all = json_of('whole')['events']
  report factor >= 1 && thin.between?(all / 40, all / 3), 'fewer objects, and for how many they stand',
         [factor, thin, all].map(&:to_s)

  told = JSON.parse(output_of({}, MALLOCTAPE, 'report', '--json', '-', 'thin'))['thin']
  wrong = [%w[thin none --thin 2], ['whole', 'none', '--thin', (all * 2).to_s], ['whole', 'none', '--thin', all.to_s]]
          .map { |words| cut(*words)[2].exitstatus }
  report (told - factor).abs < 1e-9 && output_of({}, MALLOCTAPE, 'report', 'thin').include?('! cut --thin') && wrong == [1, 1, 1],
         'report says so; neither again, nor all of it', [told.to_s, wrong.to_s]

  # Where only short lives go, nobody says that other objects are missing.
  cut('many', 'short', '--thin', '1')
  shown = %w[info report compare].map { |command|
    output_of({}, MALLOCTAPE, command, *(%w[--runs 1 --allocators glibc] if command == 'compare'), 'short')[/.*cut --thin.*/]
  }
  shown << Open3.capture3(MALLOCTAPE, 'export', '--to', 'mtrace', 'short', '-o', 'short.mtrace')[1][/.*cut --thin.*/]
  factors = %w[short thin whole].map { |path| json_of(path)['thin'] }
  report shown.all? { |line| line&.include?('has left out short lives') && !line.include?('all but one of') } &&
         factors == [1, told, nil] && output_of({}, MALLOCTAPE, 'info', 'thin').include?('all but one of '),
         'info, report, compare and export say what was left out', [*shown.map(&:to_s), factors.inspect]

  # What an object stands for is not there all at once: of 20 000 objects `most` are alive, and a thinned trace
  # has as many; but where these are three, none stands for more.
  told = [300, 3].map do |most|
    File.open('ring.mtrace', 'w') do |file|
      file.puts '= Start'
      (20_000 + most).times do |i|
        file.puts format('@ a + %#x 0x3e8', 4096 * (1 + i % (most + 1))) if i < 20_000
        file.puts format('@ a - %#x', 4096 * (1 + (i - most) % (most + 1))) if i >= most
      end
    end
    output_of({}, MALLOCTAPE, 'import', '-q', '--from', 'mtrace', 'ring.mtrace', '-o', 'ring')
    cut('ring', 'ring.thin', '--thin', '100')
    output_of({}, MALLOCTAPE, 'compare', '--json', 'compared', '--runs', '1', '--allocators', 'glibc', 'ring.thin')
    JSON.parse(File.read('compared'))['trace'].values_at('peak_live_bytes', 'events')
  end
  report told[0][0].between?(250_000, 450_000) && told[0][1] > 30_000 && told[1][0].between?(1000, 3000),
         'copies of an object are spread over time', [told.inspect]

  # Short lives at peaks between two moments: of 403 MB a moment is at each 98 355 bytes.
  File.open('bursts.mtrace', 'w') do |file|
    file.puts '= Start'
    [[40, 1000], [1, 2_860_000], [1, 50_000], [1, 10_000], [39, 1000], [1, 400_000_000]].each do |count, size|
      count.times { |i| file.puts format('@ a + %#x %#x', 4096 * (1 + i), size) }
      count.times { |i| file.puts format('@ a - %#x', 4096 * (1 + i)) }
    end
  end
  output_of({}, MALLOCTAPE, 'import', '-q', '--from', 'mtrace', 'bursts.mtrace', '-o', 'bursts')
  cut('bursts', 'bursts.thin', '--thin', '1')
  report json_of('bursts.thin')['events'] >= 160, 'what was alive at each peak stays', [json_of('bursts.thin')['events'].to_s]

  # Without names, too, they are there as often again when compare replays.
  cut('thin', 'sent', '--anonymous')
  output_of({}, MALLOCTAPE, 'compare', '--json', 'compared', '--runs', '1', '--allocators', 'glibc', 'sent')
  compared = JSON.parse(File.read('compared'))
  events = compared['trace']['events']
  report (events / (factor * thin) - 1).abs < 0.1 && compared['warnings'].join.match?(/--thin.*few calls are left/),
         'compare shows memory of the whole', [events.to_s, *compared['warnings']]

  # What was resident of a growing object is known of each size that it had; what the recorder's library
  # made stays for --thin, which tells of memory, and is nothing that a C program makes.
  File.write('growing.c', <<~PROGRAM)
    #include <stdlib.h>
    int main(void) {
      char *at = malloc(300000);
      for (int i = 2; i < 5; i++) {
        at = realloc(at, i * 300000);
        at[i * 300000 - 5000] = 1;
      }
      free(at);
    }
  PROGRAM
  output_of({}, *%w[cc -O0 growing.c -o growing -Wl,--no-as-needed -lm])
  output_of({}, MALLOCTAPE, 'record', '-q', '-o', 'growing.raw', './growing')
  cut('growing.raw', 'growing.all', '--drop', 'statistics')
  cut('growing.raw', 'growing.thin', '--thin', '1')
  cut('growing.thin', 'growing.sent', '--anonymous')
  cut('growing.raw', 'growing.small', '--minimize', "#{MALLOCTAPE} dump %s | grep -q 'realloc_.* 600000'")
  all, thin, small = %w[all thin small].map { |part|
    output_of({}, MALLOCTAPE, 'dump', "growing.#{part}").lines(chomp: true).map { |line| line[/(L0 touched .*|own=.*)/] }.compact
  }
  report all.size > 4 && all.include?('L0 touched 71 1') && all == thin && small.none? { |line| line.start_with?('own=') },
         'a thinned trace knows what was resident, and what the library made', [all.inspect, thin.inspect, small.inspect]

  # Libraries that the program has are not the allocator's memory in what compare shows of either.
  cut('growing.raw', 'growing.part', '--drop', 'mappings')
  cut('growing.raw', 'growing.nameless', '--anonymous', '--from', '1calls')
  said = %w[thin sent part nameless].map { |part| output_of({}, MALLOCTAPE, 'dump', "growing.#{part}")[/program\.has=(.*)/, 1].to_s.split(',') }
  has = %w[raw sent].map { |part|
    output_of({}, MALLOCTAPE, 'compare', '--json', 'compared', '--runs', '1', '--allocators', 'glibc', "growing.#{part}")
    JSON.parse(File.read('compared'))['allocators'][0]['reports'][0]['program_has'].to_s.split(',')
  }
  report has[0].size == 3 && said[0] == has[0] && said[1].sort == %w[libc.so.6 libm.so.6] && has[1] == said[1] &&
         said[2] == has[0] && said[3] == said[1],
         'a thinned trace knows which libraries the program has, without names only those of C', [said, has].map(&:inspect)

  # Sizes of which the sum is more than a number holds; a recording that was cut short.
  File.write('huge.mtrace', "= Start\n" + (1..5).map { |i| format("@ a + %#x 0x7000000000000000\n@ a - %#x\n", i * 4096, i * 4096) }.join)
  output_of({}, MALLOCTAPE, 'import', '-q', '--from', 'mtrace', 'huge.mtrace', '-o', 'huge')
  File.binwrite('short.raw', File.binread('growing.raw')[0..-9])
  statuses = %w[huge short.raw].map { |trace| cut(trace, 'thinned', '--thin', '1')[2].exitstatus }
  report statuses == [0, 3], 'huge sizes do no harm, and what is cut short is said to be', [statuses.inspect]
end
