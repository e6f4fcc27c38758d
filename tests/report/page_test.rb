#!/usr/bin/env ruby
# frozen_string_literal: true

# page_test.rb - the page of `report` in a browser, used by pointer and keyboard (page_driver.js): what
# it shows, against a count of the same calls.

require 'cgi'
require 'json'
require 'tmpdir'
require_relative '../tap'
require_relative '../symbols/stack_script'
require_relative '../reference/page_data'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
BROWSER = %w[chromium chromium-browser google-chrome].find { |name| system('which', name, out: File::NULL) }
TESTS = 20

def function(name) = Function.new(name, "#{name[/\w+\z/]}.c", 1)

MAIN = [function('main')].freeze
SERVE = [function('serve'), *MAIN].freeze
LEAKS = [function('malloc'), function('leaks'), *SERVE].freeze
PARSES = [function('malloc'), function('table<std::pair<leaks, int> >::parses'), *SERVE].freeze
CACHE = [function('malloc'), function('std::make'), Function.new('cache', '/src/a&b#c/cache.c', 7), function('load'), *MAIN].freeze

# In each of four quarters of the time: what is made, and whether it stays.
def record
  script = StackScript.new
  40.times do |tick|
    25.times { |i| script.allocate(1000 * tick + i, 100, LEAKS) } if tick < 10
    50.times do
      script.allocate(900, 40, PARSES)
      script.free(900)
    end
    10.times { |i| script.allocate(1000 * tick + i, 1000, CACHE) } if (20...30).cover?(tick)
    10.times { |i| script.free(1000 * (tick - 10) + i) } if tick >= 30
    script.tick
  end
  script.write('t.p')
  script
end

def bytes_text(bytes) = bytes < 1024 ? "#{bytes} bytes" : format('%g KiB', format('%.3g', bytes / 1024.0))

# Long lists of texts are packed.
def packs
  script = StackScript.new
  script.allocate(1, 10, [function('malloc'), *Array.new(100) { |i| function(%w[ping pong][i % 2]) }, *MAIN])
  script.write('deep.p')
  output_of({}, MALLOCTAPE, 'report', 'deep.p', '--html', 'deep.html', '--json', 'deep.json')
  html = File.read('deep.html')
  told = page_data(html)['code']['tree']
  kinds = html.scan(/"packed":"(\w+)"/).flatten.uniq
  report told == JSON.parse(File.read('deep.json'))['code']['tree'] && told['name'].size > 100 &&
         (%w[mostly texts] - kinds).empty?, 'long lists are packed', [kinds.to_s]
end

# The page with the driver at its end, as the browser then has it.
def results
  output_of({}, MALLOCTAPE, 'report', 't.p', '--html', 'page.html')
  driver = File.read("#{__dir__}/page_driver.js")
  File.write('page.html', File.read('page.html').sub('</body>') { "<script>{#{driver}}</script></body>" })
  said = output_of({ 'HOME' => Dir.pwd }, BROWSER, '--headless', '--no-sandbox', '--disable-gpu', '--window-size=500,900',
                   "--user-data-dir=#{Dir.pwd}/profile", '--dump-dom', "file://#{Dir.pwd}/page.html")
  JSON.parse(CGI.unescapeHTML(said[%r{<pre id="results">(.*)</pre>}, 1] || '{}'))
end

def check(text, got, want) = report(got == want, text, got == want ? [] : ["got  #{got}", "want #{want}"])

unless BROWSER && Dir.exist?('/usr/share/javascript/chart.js')
  plan 1
  report true, 'the page in a browser # SKIP needs chromium and libjs-chart.js'
  exit
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan TESTS
  packs
  script = record
  got = results
  own = script.sums_by { |object| StackScript.own(object.stack).name }.transform_values { |sums| sums['bytes'] }
  parses = own.keys.find { |name| name.start_with?('table') }
  by_own = own.sort_by { |_, bytes| -bytes }
  texts = ->(pairs) { pairs.map { |name, bytes| [name, bytes_text(bytes)] } }
  serve = own['leaks'] + own[parses]
  served = by_own.map(&:first) & ['leaks', parses]

  # --- the table ---
  check 'functions by what they ask for themselves, and with what they call',
        [got['by_own'].first(3), got['by_total'].first(2)],
        [texts.(by_own), texts.([['main', own.values.sum], ['serve', serve]])]
  check 'sorted the other way, and by name', got.values_at('rising', 'by_name', 'sorted_how').map(&:last) + got['by_name'],
        ['main', parses, 'none'] + %w[cache leaks load main serve std::make] + [parses]
  check 'filtered by numbers', got.values_at('filtered', 'between', 'wrong_filter', 'unfiltered'),
        [['cache'], ['cache', 'leaks', parses], ['true', 7], 7]
  check 'a search looks at names, and at arguments of templates if asked',
        got.values_at('searched', 'in_arguments', 'search_left'), [['leaks'], served, ['', 'TR']]
  check 'all numbers beside each other', got['other_numbers'] > 12, true
  check 'keys choose a row; callers and callees of it',
        [got['keys'].uniq, got['callers'], got['callee']],
        [[parses], texts.([['load', own['cache']]]), texts.(by_own.select { |name, _| served.include?(name) })]
  lives = script.objects.select { |o| o.stack == CACHE }.group_by { |o| o.ended - o.call > 1000 ? '10 000' : '1 000' }
                .transform_values(&:size).sort.map { |upto, count| [count.to_s, "#{count} %", upto] }
  cache = bytes_text(own['cache'])
  check 'sizes and lifetimes of it', got['lifetimes'], [[['512 bytes', '100', cache, cache, '0 bytes']], lives]
  check 'lines are links to an editor, once one is chosen', got.values_at('no_link', 'link', 'link_of_row'),
        [nil, *['vscode://file/src/a%26b%23c/cache.c:7'] * 2]
  check 'only what goes through a function, or does not', got.values_at('only', 'not_only', 'without'),
        [[*served, 'main', 'serve'], 7, %w[cache load main std::make]]

  # --- the tree and the graph: what a library makes counts for who calls it ---
  check 'a tree that is opened by keys', got.values_at('slash', 'tree', 'opened', 'closed', 'opened_again'),
        ['find a function', %w[▾main ▸serve ▸load], ['▾main', '▾serve', *served, '▸load'], ['▸main'],
         ["#{bytes_text(serve)}51 %▾serve", 'true']]
  check 'the other way up', got.values_at('inverted', 'callers_of'),
        [by_own.map { |name, bytes| ["▸#{name}", bytes_text(bytes)] }, %w[▾cache ▾load main]]
  check 'the flame graph, both ways up', got.values_at('flame', 'inverted_flame').map { |names| names.first(4) },
        [%w[all main load cache], %w[all cache load main]]
  check 'keys in it', got.values_at('flame_keys', 'flame_back', 'next_measure'),
        [["serve: #{bytes_text(serve)}, 51 %", 'serve', false], [8, true], 'objects made']
  # --- a stretch of time ---
  check 'what held most over time', got['held'], %w[cache leaks]
  check 'a part of the time, by sliders', got.values_at('first_half', 'third_quarter'),
        [texts.([[parses, 20 * 2000], ['leaks', own['leaks']]]), texts.([['cache', own['cache']], [parses, 10 * 2000]])]
  less = "−#{bytes_text(own['cache'])}"
  check 'what it grew and shrank by, in the tree, too', got.values_at('grown', 'shrunk', 'shrunk_in_tree'),
        [texts.([['cache', own['cache']]]), [['cache', less]], [['▾main', less], ['▾load', less], ['▾cache', less], ['std::make', less]]]
  check 'what is of one moment says so', got['other_measure'], 'This number is of the whole time.'
  check 'a part of the time, by a drag; and all of it again', got.values_at('dragged', 'whole_again'),
        [[[10, 20], texts.([[parses, 10 * 2000]])], 3]
  check 'nothing is wider than its box', got['wide'], [true, 4, true]
end
