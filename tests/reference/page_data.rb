# page_data.rb - the data of a page: page_data(html), as page/page_pack.h describes them.
require 'json'

def unpacked(value)
  case value
  when Array then value.map { |one| unpacked(one) }
  when Hash
    case value['packed']
    when 'texts' then unpacked(value['texts']).values_at(*unpacked(value['at']))
    when 'steps'
      sum = 0
      value['steps'].map { |step| sum += step }
    when 'mostly'
      list = Array.new(value['length'], value['value'])
      unpacked(value['at']).zip(unpacked(value['is'])) { |at, one| list[at] = one }
      list
    else value.transform_values { |one| unpacked(one) }
    end
  else value
  end
end

def page_data(html)
  unpacked(JSON.parse(html[%r{id="data">(.*)</script>}, 1]))
end
