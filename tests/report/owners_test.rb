#!/usr/bin/env ruby
# frozen_string_literal: true

# owners_test.rb - a program that maps memory in several ways, recorded on its own allocator: report
# says which function has how much of RSS, and all parts add up to it; two traces say what changed.

require 'json'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
def has?(program) = ENV['PATH'].split(':').any? { |place| File.executable?("#{place}/#{program}") }

MIB = 1 << 20
SOURCE = <<~C
  #define _GNU_SOURCE
  #include <pthread.h>
  #include <stdlib.h>
  #include <string.h>
  #include <sys/mman.h>
  #include <unistd.h>
  static char zeros[3 << 20];
  /* No function, so that its callers are those that map. */
  #define map(mib, flags) \\
      mmap(NULL, (mib) << 20, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (flags), -1, 0)
  /* Beside each other, so that the kernel makes one area of them. */
  __attribute__((noinline)) void fill_cache(void) { memset(map(CACHE, MAP_PRIVATE), 1, CACHE << 20); }
  __attribute__((noinline)) void half_used(void) { memset(map(16ul, MAP_PRIVATE), 1, 8 << 20); }
  __attribute__((noinline)) void shares(void) { memset(map(6ul, MAP_SHARED), 1, 6 << 20); }
  __attribute__((noinline)) void grows(void)
  {
      char *at = mremap(map(1ul, MAP_PRIVATE), 1 << 20, 5 << 20, MREMAP_MAYMOVE);
      if (at == MAP_FAILED) exit(1);
      memset(at, 1, 5 << 20);
  }
  static pthread_barrier_t barrier;
  static void *thread(void *of)
  {
      char used[512 << 10];
      memset(used, 1, sizeof used);
      __asm__ volatile("" : : "r"(used) : "memory");
      pthread_barrier_wait(&barrier);
      pthread_barrier_wait(&barrier);
      return of;
  }
  int main(void)
  {
      pthread_t threads[3];
      pthread_barrier_init(&barrier, NULL, 4);
      fill_cache();
      half_used();
      shares();
      grows();
      memset(zeros, 1, sizeof zeros);
      for (int i = 0; i < 4; i++) memset(malloc(5 << 20), 1, 5 << 20);
      for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, thread, NULL);
      pthread_barrier_wait(&barrier);
      exit(0);
  }
C

# Its heap stays as it is when all is freed.
FREES = <<~C
  #include <stdlib.h>
  #include <string.h>
  int malloctape_library_sync(void) __attribute__((weak)); /* looks at what is resident */
  static char *objects[20000];
  int main(void)
  {
      for (int i = 0; i < 20000; i++) memset(objects[i] = malloc(1000), 1, 1000);
      malloctape_library_sync();
      for (int i = 0; i < 20000; i++) free(objects[i]);
      return 0;
  }
C

def compile(name, *options)
  File.write('owners.c', SOURCE)
  output_of({}, 'gcc', '-g', '-O1', '-pthread', '-w', *options, '-o', name, 'owners.c')
end

def record(file, program, *options)
  output_of({}, MALLOCTAPE, 'record', '--quiet', '--allocator=program', *options, '-o', file, '--',
            "./#{program}")
end

def report_of(*words)
  text = output_of({}, MALLOCTAPE, 'report', *words, '--json', 'report.json')
  [text, JSON.parse(File.read('report.json'))]
end

# Bytes at the end, by owner.
def owners(rss)
  table = rss['owners']
  table['owner'].zip(table['kind'], table['end_bytes']).to_h { |owner, kind, bytes| [[kind, owner], bytes] }
end

def near(bytes, mib) = bytes && (bytes - mib * MIB).abs <= MIB / 4

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 14
  compile('before', '-DCACHE=32ul')
  compile('after', '-DCACHE=40ul')
  record('before.lz4', 'before', '--stacks=all')
  record('after.lz4', 'after', '--stacks=all')

  text, json = report_of('before.lz4')
  rss = json['rss']
  of = owners(rss)
  code = { 'fill_cache' => 32, 'half_used' => 8, 'grows' => 5 }
  report code.all? { |name, mib| near(of[['mapped', name]], mib) },
         'mappings belong to the functions that made them', [of.to_s]
  report near(of[['shared', 'shares']], 6), 'so does shared memory'
  stacks = of.find { |(kind, _), _| kind == 'stacks' }
  report stacks && stacks[0][1].match?(/^stacks of [34] threads$/) && stacks[1].between?(1.5 * MIB, 2.5 * MIB),
         'the stacks of threads are known', [stacks.to_s]
  data = of.find { |(kind, name), _| kind == 'file' && name.end_with?('/before') }
  report data && data[1] >= 3 * MIB && of.find { |(kind, _), _| kind == 'alive' }[1] >= 20 * MIB,
         'static data belong to the program, large objects to the heap', [of.to_s]
  sums = %w[peak end].zip(%w[bytes end_bytes], %w[unowned unowned_end]).map do |look, column, unowned|
    rss[look]['bytes'] == rss['owners'][column].sum + rss[unowned]
  end
  report sums.all? && rss['unowned_end'] <= rss['end']['bytes'] / 50 &&
         text.match?(/^RSS  *peak .* after call /) && text.match?(/  mapped by fill_cache$/) &&
         text.match?(/^functions to look at first\n .*%  resident, mapped  *fill_cache/),
         'all add up to RSS, and nearly all has an owner', [rss['unowned_end'].to_s]

  output_of({}, MALLOCTAPE, 'report', 'before.lz4', '--html', 'page.html')
  said = File.read('page.html')[/RSS was ([\d.]+ \w+) at its peak(; |\. Of the [^:]*: )[\d.]+ \w+ \(/, 1]
  report said && said == text[/^RSS  *peak ([\d.]+ \w+);/, 1], 'the page begins with the same peak', [said.to_s]

  rows = json['code']['rows']
  main = rows['total_mapped'][rows['name'].index('main')]
  report rss['peak']['why'] != 'end' || near(main, 32 + 8 + 6 + 5), 'functions have what they call map',
         [main.to_s]
  broken = ['mapped@fill_cache>20M', 'mapped@fill_cache>100M'].map do |limit|
    system(MALLOCTAPE, 'report', 'before.lz4', '--fail-if', limit, %i[out err] => '/dev/null')
    $?.exitstatus
  end
  report broken == [6, 0], 'a limit on what a function has mapped', [broken.to_s]

  output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'folded', '--measure', 'mapped',
            '-o', 'folded', 'before.lz4')
  folded = File.readlines('folded').to_h { |line| line[/([^;]+) (\d+)$/] && [$1, $2.to_i] }
  report near(folded['fill_cache'], 32) && near(folded['shares'], 6) && near(folded['half_used'], 8),
         'exported, too', [folded.to_s]
  if has?('avrocat')
    output_of({}, MALLOCTAPE, 'export', '--quiet', '--to', 'avro', '-o', 'objects.avro', '--mappings',
              'mappings.avro', 'before.lz4')
    mappings = output_of({}, 'avrocat', 'mappings.avro').lines.map { |line| JSON.parse(line) }
    dumped = output_of({}, MALLOCTAPE, 'dump', 'before.lz4').scan(/ mapping (\w+) .* at 0x(\h+) bytes (\d+) /)
    dumped.reject! { |what, *| what == 'touched' }
    told = mappings.map { |one| [one['what'], one['address'].to_s(16), one['bytes'].to_s] }
    large = mappings.select { |one| one['bytes'] == 32 * MIB }
    report told.sort == dumped.sort && large.any? && large.all? { |one| one['stack'] && one['file'].nil? },
           'and each call as a row of Avro', [told.size.to_s, dumped.size.to_s]
  else
    skip 'and each call as a row of Avro', 'no avrocat'
  end

  text, json = report_of('before.lz4', 'after.lz4')
  change = json['owners']&.find { |one| one['owner'] == 'fill_cache' }
  report change && near(change['end']['difference'], 8) && text.match?(/fill_cache/),
         'two traces: what changed, by owner', [change.to_s]

  # What malloctape's tcmalloc takes at first, before the recording, may be all that it needs. Between a
  # tick and a look more of the library may have been read.
  of = recorder = told = nil
  5.times do
    output_of({}, MALLOCTAPE, 'record', '-q', '-o', 'small.lz4', '--', 'bash', '-c', 'x=1')
    _, json = report_of('small.lz4')
    of = owners(json['rss'])
    recorder = of.sum { |(kind, _), bytes| kind == 'recorder' ? bytes : 0 }
    told = output_of({}, MALLOCTAPE, 'dump', 'small.lz4').scan(/ tick .* recorder (\d+)/).last[0].to_i
    break if (recorder - told).abs <= 64 << 10
  end
  report of.keys.any? { |kind, _| kind == 'alive' },
         'a heap that never grew is one', [of.to_s]
  report (recorder - told).abs <= 64 << 10 && told > 0,
         'what of the library is the recorder\'s counts as its own', [recorder.to_s, told.to_s]

  File.write('frees.c', FREES)
  output_of({}, *%w[gcc -O1 -w -rdynamic -o frees frees.c])
  output_of({}, MALLOCTAPE, 'record', '-q', '-o', 'frees.lz4', '--', './frees')
  text, json = report_of('frees.lz4')
  alive = json['rss']['owners'].values_at('kind', 'bytes').transpose.assoc('alive')
  report alive && alive[1] > 15 * MIB, 'of equal looks that counts as the peak at which most was alive',
         text.lines.first(16)
end
