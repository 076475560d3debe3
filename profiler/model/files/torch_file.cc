#include "profiler/model/files/torch_file.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/base/new_file.h"
#include "profiler/model/files/pickle.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune::profiler {
namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

constexpr std::int64_t kMostPickleBytes = 64 << 20;
constexpr const char* kSaveByTorch = "save it in Python with torch.save, as a dict of tensors";

// Reads each storage once, on demand.
class Storages {
 public:
  Storages(PyTorchStreamReader& reader, std::int64_t file_bytes) : reader_(reader), file_bytes_(file_bytes) {}

  // Records are not compressed: one that claims more bytes than the file has is invalid and must not be allocated.
  std::pair<std::shared_ptr<at::DataPtr>, std::int64_t> record(const std::string& name, std::int64_t most) {
    if (!reader_.hasRecord(name)) throw PickleError("it has no record '" + name + "'");
    if (static_cast<std::int64_t>(reader_.getRecordSize(name)) > std::min(most, file_bytes_))
      throw PickleError("its record '" + name + "' is compressed or too large");
    auto [data, bytes] = reader_.getRecord(name);
    return {std::make_shared<at::DataPtr>(std::move(data)), static_cast<std::int64_t>(bytes)};
  }

  at::Tensor flat(const PickleStorage& storage) {
    auto found = loaded_.find(storage.key);
    if (found == loaded_.end()) found = loaded_.emplace(storage.key, record("data/" + storage.key, file_bytes_)).first;
    const auto& [data, bytes] = found->second;
    const auto element = static_cast<std::int64_t>(c10::elementSize(storage.type));
    if (storage.numel < 0 || storage.numel > bytes / element)
      throw PickleError("its record 'data/" + storage.key + "' is shorter than its tensors");
    if (storage.numel == 0) return at::empty({0}, storage.type);
    return at::from_blob(
        data->get(), {storage.numel}, [keep = data](void*) {}, at::TensorOptions(storage.type));
  }

 private:
  PyTorchStreamReader& reader_;
  std::int64_t file_bytes_;
  std::map<std::string, std::pair<std::shared_ptr<at::DataPtr>, std::int64_t>> loaded_;
};

TensorDict to_dict(const PicklePointer& root) {
  const auto* dict = std::get_if<PickleDict>(&root->content);
  if (dict == nullptr) throw PickleError("it holds no dict");
  TensorDict result;
  for (const auto& [key, value] : dict->items) {
    const auto* name = std::get_if<std::string>(&key->content);
    const auto* tensor = std::get_if<at::Tensor>(&value->content);
    if (name == nullptr || tensor == nullptr)
      throw PickleError(name == nullptr ? "a key of its dict is not a string" : "its entry '" + *name + "' is not a tensor");
    result.emplace_back(*name, *tensor);
  }
  return result;
}

// Reads only within the bytes, whatever offsets the archive contains.
class BytesAdapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit BytesAdapter(std::string_view bytes) : bytes_(bytes) {}
  std::size_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t position, void* buffer, std::size_t count, const char* /*what*/) const override {
    const std::size_t first = std::min<std::size_t>(position, bytes_.size());
    const std::string_view part = bytes_.substr(first, count);
    std::memcpy(buffer, part.data(), part.size());
    return part.size();
  }

 private:
  std::string_view bytes_;
};

// Applies `read` to the archive's pickle.
template <class Read>
auto read_archive(PyTorchStreamReader& reader, std::int64_t file_bytes, const Read& read) {
  Storages storages(reader, file_bytes);
  if (reader.hasRecord("byteorder")) {
    const auto [order, bytes] = storages.record("byteorder", 16);
    if (std::string(static_cast<const char*>(order->get()), as_index(bytes)) != "little")
      throw PickleError("its bytes are in big-endian order");
  }
  const auto [pickle, bytes] = storages.record("data.pkl", kMostPickleBytes);
  const std::string_view view(static_cast<const char*>(pickle->get()), as_index(bytes));
  return read(view, [&](const PickleStorage& storage) { return storages.flat(storage); });
}

// Turns exceptions of `read` into Errors that name the file.
template <class Read>
auto refusing(const std::string& where, const char* expected, const Read& read) {
  try {
    return read();
  } catch (const PickleError& error) {
    throw Error(std::string("not ") + expected + ": " + error.what(), where, kSaveByTorch);
  } catch (const c10::Error&) {
    throw Error("not a file of torch.save (PyTorch 1.6 or newer), or cut short", where, kSaveByTorch);
  }
}

void write_archive(NewFile& file, const TensorDict& tensors, std::exception_ptr& failure) {
  // This is called from C, so the exception is kept in `failure` and thrown again afterwards.
  PyTorchStreamWriter writer([&](const void* data, std::size_t bytes) -> std::size_t {
    if (failure) return 0;
    try {
      file << std::string_view(static_cast<const char*>(data), bytes);
      return bytes;
    } catch (const Error&) {
      failure = std::current_exception();
      return 0;
    }
  });
  const auto pickle = write_pickle(tensors);
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  const std::string order = "little";
  writer.writeRecord("byteorder", order.data(), order.size());
  const std::vector<std::size_t> storages = storages_of(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (storages[i] != i) continue;
    writer.writeRecord("data/" + std::to_string(i), tensors[i].second.const_data_ptr(), tensors[i].second.nbytes());
  }
  writer.writeEndOfFile();
}

}  // namespace

TensorDict read_torch_file(const std::string& path) {
  std::error_code failed;
  const auto file_bytes = std::filesystem::is_regular_file(path, failed) ? std::filesystem::file_size(path, failed) : 0;
  if (failed || !std::filesystem::is_regular_file(path, failed) || ::access(path.c_str(), R_OK) != 0)
    throw Error("no such file, or it cannot be read", path, "name a file saved with torch.save");
  return refusing(path, "a dict of tensors", [&] {
    PyTorchStreamReader reader(path);
    return read_archive(reader, static_cast<std::int64_t>(file_bytes),
                        [](std::string_view pickle, const StorageReader& storage) { return to_dict(read_pickle(pickle, storage)); });
  });
}

std::vector<at::Tensor> read_saved_tensors(std::string_view bytes, const std::string& where) {
  return refusing(where, "tensors in tuples, lists and dicts", [&] {
    PyTorchStreamReader reader(std::make_shared<BytesAdapter>(bytes));
    return read_archive(reader, static_cast<std::int64_t>(bytes.size()), read_pickled_tensors);
  });
}

void write_torch_file(const std::string& path, const TensorDict& tensors) {
  TensorDict flat;
  for (const auto& [name, tensor] : tensors) flat.emplace_back(name, tensor.detach().to(at::kCPU).contiguous());
  NewFile file(path, ExitCode::environment);
  std::exception_ptr failure;
  try {
    write_archive(file, flat, failure);
  } catch (const PickleError& error) {
    throw Error(error.what(), path, "convert the model's tensors to a common type");
  } catch (const c10::Error& error) {
    if (failure) std::rethrow_exception(failure);
    throw Error("cannot write: " + library_message(error.what_without_backtrace()), path, "choose a writable folder with free space",
                ExitCode::environment);
  }
  file.commit();
}

bool torch_files_hold(at::ScalarType type) {
  return std::ranges::any_of(scalar_types(), [type](const ScalarTypeNames& known) { return known.type == type; });
}

}  // namespace mptune::profiler
