-- Arguments after `--`: the method, the file with the body (or nothing), then the paths.
-- Several paths are sent in turn by each thread; one path needs no Lua while wrk runs.

function init(args)
   wrk.method = args[1]
   if args[2] ~= "" then
      local file = assert(io.open(args[2], "rb"))
      wrk.body = file:read("*a")
      file:close()
   end
   if #args > 3 then
      local requests = {}
      for n = 3, #args do
         requests[#requests + 1] = wrk.format(nil, args[n])
      end
      local turn = 0
      function request()
         turn = turn % #requests + 1
         return requests[turn]
      end
   end
end

-- Every value of the histogram (microseconds) with its count, instead of a few quantiles.
function done(summary, latency, requests)
   local errors = summary.errors
   io.write("trilane {")
   io.write(string.format('"requests":%.0f,"duration_us":%.0f,"bytes":%.0f,',
      summary.requests, summary.duration, summary.bytes))
   io.write(string.format('"connect":%.0f,"read":%.0f,"write":%.0f,"status":%.0f,"timeout":%.0f,',
      errors.connect, errors.read, errors.write, errors.status, errors.timeout))
   io.write('"latency":[')
   for n = 1, #latency do
      local value, count = latency(n)
      io.write(string.format("%s[%.0f,%.0f]", n > 1 and "," or "", value, tonumber(count)))
   end
   io.write("]}\n")
end
