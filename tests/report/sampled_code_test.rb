#!/usr/bin/env ruby
# frozen_string_literal: true

# sampled_code_test.rb - random programs, recorded with sampled call stacks: the intervals that report
# prints have the true values in them as often as they say, which are those of a recording with all
# stacks. A program mixes sizes, kinds of calls, threads, depths of stacks, phases, and frees by other
# threads, as its seed says. MALLOCTAPE_SAMPLES: how many with each front end; MALLOCTAPE_SEED: the
# first one.

require 'json'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
RUNS = Integer(ENV['MALLOCTAPE_SAMPLES'] || size(4, 100))
FIRST = Integer(ENV['MALLOCTAPE_SEED'] || 1)
# How many objects each function makes depends on the seed alone, and so do their sizes. An object that
# is freed later, or by the next thread, goes through a list.
SOURCE = <<~C
  #include <malloc.h>
  #include <pthread.h>
  #include <stdlib.h>
  enum { FUNCTIONS = 12, THREADS = 3, LIST = 1 << 12 };
  struct behaviour { unsigned kind, least, range, weight, kept, remote, depth, phase; } of[FUNCTIONS];
  struct list { pthread_mutex_t lock; unsigned count; void *objects[LIST]; } lists[THREADS];
  static unsigned threads, turns;
  static unsigned next(unsigned long *random, unsigned most)
  {
      *random = *random * 6364136223846793005 + 1442695040888963407;
      return (unsigned)(*random >> 33) % most;
  }
  __attribute__((noinline)) void drop_own(void *object) { free(object); __asm__ volatile(""); }
  __attribute__((noinline)) void drop_listed(void *object) { free(object); __asm__ volatile(""); }
  static void put(struct list *list, void *object)
  {
      void *other = object;
      pthread_mutex_lock(&list->lock);
      if (list->count < LIST) {
          list->objects[list->count++] = object;
          other = NULL;
      }
      pthread_mutex_unlock(&list->lock);
      drop_listed(other);
  }
  static void drain(struct list *list)
  {
      pthread_mutex_lock(&list->lock);
      while (list->count > 0)
          drop_listed(list->objects[--list->count]);
      pthread_mutex_unlock(&list->lock);
  }
  static inline __attribute__((always_inline)) void *make(unsigned kind, size_t bytes)
  {
      switch (kind) {
      case 0: return calloc(1, bytes);
      case 1: return memalign(64, bytes);
      case 2: return realloc(malloc(8), bytes);
      default: return malloc(bytes);
      }
  }
  #define FUNCTION(number) \\
      __attribute__((noinline)) void *make_##number(unsigned kind, size_t bytes) \\
      { \\
          void *volatile object = make(kind, bytes); \\
          return object; \\
      } \\
      __attribute__((noinline)) void *deep_##number(unsigned depth, unsigned kind, size_t bytes) \\
      { \\
          void *volatile object = depth > 0 ? deep_##number(depth - 1, kind, bytes) \\
                                            : make_##number(kind, bytes); \\
          return object; \\
      }
  FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5)
  FUNCTION(6) FUNCTION(7) FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11)
  static void *(*const functions[])(unsigned, unsigned, size_t) = {
      deep_0, deep_1, deep_2, deep_3, deep_4, deep_5, deep_6, deep_7, deep_8, deep_9, deep_10, deep_11};
  static void *run(void *of_thread)
  {
      const unsigned thread = (unsigned)(size_t)of_thread;
      unsigned long random = thread + 1;
      for (unsigned turn = 0; turn < turns; turn++) {
          const unsigned at = next(&random, FUNCTIONS);
          const struct behaviour *one = &of[at];
          if (next(&random, one->weight) > 0 || (turn * 4 / turns + one->phase) % 4 < one->phase % 3)
              continue;
          void *object = functions[at](one->depth, one->kind, one->least + next(&random, one->range));
          if (next(&random, 1000) < one->kept) continue;
          if (one->remote)
              put(&lists[(thread + one->remote - 1) % threads], object);
          else
              drop_own(object);
          if (turn % 64 == 0) drain(&lists[thread]);
      }
      return NULL;
  }
  int main(int count, char **words)
  {
      pthread_t others[THREADS];
      unsigned long random = (unsigned long)atol(words[1]) * 7919;
      threads = 1 + next(&random, THREADS);
      turns = 40000u << next(&random, 3);
      for (unsigned i = 0; i < FUNCTIONS; i++) {
          const unsigned size = 1u << next(&random, next(&random, 4) == 0 ? 19 : 11);
          of[i] = (struct behaviour){
              next(&random, 6), size, next(&random, 3) ? 1 : 1 + size * next(&random, 3),
              1 + (1u << next(&random, 7)) + size / 1000,
              next(&random, 2) ? 0 : next(&random, 3) ? next(&random, 50) : 1000,
              next(&random, 3), next(&random, 2) * next(&random, 60), next(&random, 12)};
      }
      for (unsigned i = 0; i < threads; i++)
          pthread_mutex_init(&lists[i].lock, NULL);
      for (unsigned i = 0; i < threads; i++)
          pthread_create(&others[i], NULL, run, (void *)(size_t)i);
      for (unsigned i = 0; i < threads; i++)
          pthread_join(others[i], NULL);
      for (unsigned i = 0; i < threads; i++)
          drain(&lists[i]);
      return 0;
  }
C
# What is estimated, and half of its interval.
KEYS = { 'made' => 'made_margin', 'bytes' => 'bytes_margin', 'end_bytes' => 'end_margin',
         'freed' => 'freed_margin' }.freeze
# A few programs only show whether everything runs. By chance it is less in one of some thousand times:
# then others are looked at.
SHARE_LEAST = RUNS < 50 ? 0.85 : 0.95
FRONT_ENDS = { 'tcmalloc' => [], 'its own allocator' => ['--allocator=program'] }.freeze

# By function, what report says of it.
def rows(seed, stacks, *options)
  output_of({}, MALLOCTAPE, 'record', '--quiet', stacks, *options, '-o', 'raw.lz4', '--', './spots', seed.to_s)
  output_of({}, MALLOCTAPE, 'report', 'raw.lz4', '--json', 'report.json')
  found = JSON.parse(File.read('report.json'))['code']['rows']
  keys = [*KEYS.keys, *KEYS.values]
  found['name'].each_index.to_h { |i| [found['name'][i], keys.to_h { |key| [key, found[key][i]] }] }
end

# By number, of how many functions the interval has the true value in it, and how many there are. A
# function that no sample met is in no table.
def held(options, seeds, counts = Hash.new { |all, key| all[key] = [0, 0] })
  seeds.each do |seed|
    truth = rows(seed, '--stacks=all,frees', *options).select { |name, _| name.match?(/^(make|drop)/) }
    rows(seed, '--stacks=16k', *options).slice(*truth.keys).each do |name, row|
      KEYS.each do |key, margin|
        next if truth[name][key].zero? && row[key].zero?

        counts[key][1] += 1
        counts[key][0] += 1 if (row[key] - truth[name][key]).abs <= row[margin].to_f + 0.5
      end
    end
  end
  counts
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan FRONT_ENDS.size
  File.write('spots.c', SOURCE)
  output_of({}, 'gcc', '-O1', '-w', '-fno-builtin', '-pthread', '-o', 'spots', 'spots.c')
  FRONT_ENDS.each do |on, options|
    counts = good = all = nil
    2.times do |turn|
      counts = held(options, FIRST + turn * RUNS...FIRST + (turn + 1) * RUNS)
      good, all = counts.values.transpose.map(&:sum)
      break if good >= SHARE_LEAST * all
    end
    report good >= SHARE_LEAST * all && all >= 10 * RUNS,
           "on #{on}: #{good} of #{all} intervals have the true value in them",
           counts.map { |key, (one, of)| "#{key}: #{one} of #{of}" }
  end
end
