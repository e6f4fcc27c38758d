#!/usr/bin/env ruby
# frozen_string_literal: true

# sampled_code_test.rb - a program of functions that ask for the same sizes, recorded again and again with sampled call
# stacks: the intervals that report prints have the true values in them as often as they say, which
# are those of a recording with all stacks. Of code that has made a handful of objects samples say
# nothing reliable. MALLOCTAPE_SAMPLES: how often with each front end.

require 'json'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
RUNS = Integer(ENV['MALLOCTAPE_SAMPLES'] || size(3, 100))
OBJECTS_LEAST = 100
# Functions that ask for the same sizes, one more often than the other, in no order; each keeps one in
# so many objects.
SOURCE = <<~C
  #include <stdlib.h>
  #define TAKES(name, kept) \\
      __attribute__((noinline)) void name(size_t bytes, unsigned turn) \\
      { \\
          void *volatile object = malloc(bytes); \\
          if (turn % kept != 0) free(object); \\
      }
  TAKES(often, 50)
  TAKES(sometimes, 7)
  TAKES(seldom, 2)
  __attribute__((noinline)) void *resizes(void *object, size_t bytes)
  {
      void *volatile moved = realloc(object, bytes);
      return moved;
  }
  int main(void)
  {
      unsigned random = 1;
      void *grown = NULL;
      for (unsigned turn = 0; turn < 40000; turn++) {
          random = random * 1103515245 + 12345;
          const unsigned way = random >> 16 & 31;
          const size_t bytes = 16 + (random >> 21 & 255) * (way % 4 == 3 ? 20 : 1);
          if (way < 20)
              often(bytes, turn);
          else if (way < 28)
              sometimes(bytes, turn);
          else if (way < 30)
              seldom(bytes, turn);
          else
              grown = resizes(grown, 16 * bytes);
      }
      free(grown);
      return 0;
  }
C
# What is estimated, and half of its interval.
KEYS = { 'made' => 'made_margin', 'bytes' => 'bytes_margin', 'peak_bytes' => 'peak_margin',
         'end_bytes' => 'end_margin' }.freeze
# A few runs only show whether everything runs.
SHARE_LEAST = RUNS < 50 ? 0.7 : 0.9
FRONT_ENDS = { 'tcmalloc' => [], 'its own allocator' => ['--allocator=program'] }.freeze

# By function, what report says of it.
def rows(stacks, *options)
  output_of({}, MALLOCTAPE, 'record', '--quiet', stacks, *options, '-o', 'raw.lz4', '--', './spots')
  output_of({}, MALLOCTAPE, 'report', 'raw.lz4', '--json', 'report.json')
  found = JSON.parse(File.read('report.json'))['code']['rows']
  keys = [*KEYS.keys, *KEYS.values]
  found['name'].each_index.to_h { |i| [found['name'][i], keys.to_h { |key| [key, found[key][i]] }] }
end

# By function and number, how often of `RUNS` times the interval had the true value in it. A function
# that no sample met is in no table.
def held(options)
  truth = rows('--stacks=all', *options).select { |_, row| row['made'] >= OBJECTS_LEAST }
  counts = Hash.new { |all, key| all[key] = [0, 0] }
  RUNS.times do
    rows('--stacks=16k', *options).slice(*truth.keys).each do |name, row|
      KEYS.each do |key, margin|
        next if truth[name][key].zero? && row[key].zero?

        counts[[name, key]][1] += 1
        counts[[name, key]][0] += 1 if (row[key] - truth[name][key]).abs <= row[margin].to_f + 0.5
      end
    end
  end
  counts
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan FRONT_ENDS.size
  File.write('spots.c', SOURCE)
  output_of({}, 'gcc', '-g', '-O1', '-w', '-o', 'spots', 'spots.c')
  FRONT_ENDS.each do |on, options|
    counts = held(options)
    often = counts.select { |_, (_, times)| times >= RUNS / 2 }
    good, all = counts.values.transpose.map(&:sum)
    # One that holds in 95 of 100 holds in fewer than 85 once in 4 000 times.
    seldom = RUNS < 50 ? [] : counts.select { |_, (one, times)| one < 0.85 * times }
    notes = often.map { |(name, key), (one, times)| "#{name} #{key}: #{one} of #{times}" }
    report good >= SHARE_LEAST * all && seldom.empty?,
           "on #{on}: #{good} of #{all} intervals have the true value in them", notes
  end
end
