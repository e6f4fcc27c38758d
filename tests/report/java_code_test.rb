#!/usr/bin/env ruby
# frozen_string_literal: true

# java_code_test.rb - a Java program, recorded by both front ends: the stacks of what a library makes for
# it go on through its native functions and, on x86-64 with frame pointers, through compiled Java.

require 'json'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
TIMES = 1000 # each of two threads
SOURCE = <<~JAVA
  import java.util.zip.*;
  public class Packs implements Runnable {
      static void pack() {
          Deflater packer = new Deflater();
          packer.setInput(new byte[1000]);
          packer.finish();
          packer.deflate(new byte[2000]);
          packer.end();
      }
      public void run() { for (int i = 0; i < #{TIMES}; i++) pack(); }
      public static void main(String[] words) throws Exception {
          Thread other = new Thread(new Packs());
          other.start();
          new Packs().run();
          other.join();
      }
  }
JAVA
JAVA = %w[java -Xmx64m -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions
          -XX:+DumpPerfMapAtExit].freeze
FOLLOWS_JAVA = RbConfig::CONFIG['host_cpu'] == 'x86_64'
FRONT_ENDS = { 'tcmalloc' => [], 'its own allocator' => ['--allocator=program'] }.freeze

# By stack, the outermost function first: how often zlib's function made something there.
def stacks_of(file)
  output_of({}, MALLOCTAPE, 'export', '--to', 'folded', file, '-o', 'folded')
  File.readlines('folded', chomp: true).grep(/;deflateInit2_ \d+$/)
end

def objects_of(file)
  output_of({}, MALLOCTAPE, 'report', file, '--json', 'report.json')
  rows = JSON.parse(File.read('report.json'))['code']['rows']
  rows['made'][rows['name'].index('deflateInit2_') || rows['made'].size].to_i
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  File.write('Packs.java', SOURCE)
  unless system('javac', 'Packs.java', %i[out err] => File::NULL) &&
         system(*JAVA, '-version', %i[out err] => File::NULL)
    puts '1..0 # SKIP no JDK of version 17 or newer'
    exit
  end
  plan FRONT_ENDS.size
  FRONT_ENDS.each do |on, options|
    output_of({}, MALLOCTAPE, 'record', '--quiet', '--stacks=all', *options, '-o', 'raw.lz4', '--', *JAVA, 'Packs')
    verified = output_of({}, MALLOCTAPE, 'verify', 'raw.lz4').match?(/in order$/)
    stacks = stacks_of('raw.lz4')
    objects = objects_of('raw.lz4')
    # One for each of its tables, and the same number each time.
    report verified && objects >= 2 * TIMES && (objects % (2 * TIMES)).zero? &&
           stacks.any? && stacks.all? { |one| one.include?('Java_java_util_zip_Deflater_init;') } &&
           (!FOLLOWS_JAVA || stacks.any? { |one| one.match?(/java\.util\.zip\.Deflater\.\S*init/) }),
           "on #{on}: code of Java and of the libraries that it calls", [objects.to_s, *stacks.first(5)]
  end
end
