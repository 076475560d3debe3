#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/trace/formats/csv.h"

namespace mptune::profiler {
namespace {

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string field(int value) {
  return value < 0 ? std::string{} : std::to_string(value);
}

std::string device_field(const Trace& trace, int device) {
  const bool known = device >= 0 && as_index(device) < trace.devices.size();
  return known ? field(trace.devices[as_index(device)].name) : std::string{};
}

std::string row_of(const Trace& trace, const Event& event) {
  const Tag tag = event.tag < 0 ? Tag{} : trace.tags[as_index(event.tag)];
  std::string row = std::to_string(event.start.count()) + ',' + std::to_string(event.duration.count()) + ',' +
                    device_field(trace, event.device) + ',' + std::to_string(event.lane) + ',' + to_string(event.kind) + ',' +
                    field(trace.names[as_index(event.name)]);
  for (const int value : {tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica}) row += ',' + field(value);
  if (event.kind != EventKind::copy || event.detail < 0) return row + ",,,\n";
  const Copy& copy = trace.copies[as_index(event.detail)];
  return row + ',' + std::to_string(copy.bytes) + ',' + device_field(trace, copy.source) + ',' + device_field(trace, copy.destination) +
         '\n';
}

}  // namespace

void write_csv(const Trace& trace, const std::string& path) {
  NewFile file(path);
  file << "start_ns,duration_ns,device,lane,what,name,step,stage,microbatch,layer,replica,bytes,source,destination\n";
  for (const Event& event : trace.events) file << row_of(trace, event);
  file.commit();
}

}  // namespace mptune::profiler
