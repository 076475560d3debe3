#include "edited_archive.h"

#include <caffe2/serialize/inline_container.h>

namespace mptune::testing {

EditedArchive::EditedArchive(const std::string& name) {
  caffe2::serialize::PyTorchStreamReader reader(MPTUNE_SOURCE_DIR "/tests/golden/exported/" + name + ".pt2");
  for (const std::string& record : reader.getAllRecords()) {
    if (record.starts_with(".data/") || record == "version" || record == "byteorder") continue;  // the writer's own
    const auto [data, size] = reader.getRecord(record);
    records[record] = std::string(static_cast<const char*>(data.get()), size);
  }
}

std::string EditedArchive::write(const std::string& path) const {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  for (const auto& [name, content] : records) writer.writeRecord(name, content.data(), content.size());
  writer.writeEndOfFile();
  return path;
}

}  // namespace mptune::testing
