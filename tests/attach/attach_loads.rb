# attach_loads.rb KIND PLACE - a client of a server, until the file `stop` is there. Prints "ready" and
# at last "right N": so many answers, each as it should be. Ends with 1 when one is not, or is missing.
require 'open3'
require 'socket'

kind, place = ARGV
right = 0

# Each with a block that asks once and tells whether the answer is right.
def until_stopped
  until File.exist?('stop')
    yield or abort('a wrong answer')
  end
end

case kind
when 'redis'
  server = UNIXSocket.new(place)
  puts 'ready'
  $stdout.flush
  until_stopped do
    value = "value #{right} " * (right % 40 + 1)
    key = "key #{right % 1000}"
    server.write("*3\r\n$3\r\nSET\r\n$#{key.size}\r\n#{key}\r\n$#{value.size}\r\n#{value}\r\n" \
                 "*2\r\n$3\r\nGET\r\n$#{key.size}\r\n#{key}\r\n")
    right += 1
    server.gets == "+OK\r\n" && server.gets == "$#{value.size}\r\n" && server.read(value.size + 2) == "#{value}\r\n"
  end
when 'nginx'
  puts 'ready'
  $stdout.flush
  until_stopped do
    # As many requests as the server takes on a connection.
    server = UNIXSocket.new(place)
    good = (1..20).all? do |i|
      last = i == 20
      server.write("GET /?n=#{right} HTTP/1.1\r\nHost: a\r\nConnection: #{last ? 'close' : 'keep-alive'}\r\n\r\n")
      length = nil
      while (line = server.gets) && line != "\r\n"
        length = line.split.last.to_i if line.downcase.start_with?('content-length:')
      end
      right += 1
      length && server.read(length) == "answer #{right - 1}\n"
    end
    server.close
    good
  end
when 'postgres'
  Open3.popen2('psql', '-h', place, '-U', 'postgres', '-At') do |input, output, _|
    input.puts('select pg_backend_pid();')
    input.flush
    puts "ready #{output.gets.to_i}"
    $stdout.flush
    until_stopped do
      input.puts("select #{right}, sum(i), md5(string_agg(i::text, ',')) from generate_series(1, 3000) i;")
      input.flush
      right += 1
      fields = output.gets.to_s.chomp.split('|')
      first ||= fields[2]
      fields[0].to_i == right - 1 && fields[1] == '4501500' && fields[2].size == 32
    end
  end
end
puts "right #{right}"
