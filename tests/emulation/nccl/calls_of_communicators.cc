// NCCL's functions that make and end communicators.
#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/failure.h"
#include "tests/emulation/nccl/group.h"
#include "tests/emulation/nccl/last_error.h"

namespace emulation {
namespace {

Communicator& open(ncclComm_t handle, const char* function) {
  if (handle == nullptr) throw NcclFailure(ncclInvalidArgument, std::string(function) + " : comm argument is NULL");
  return *handle->communicator;
}

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  if (config == nullptr) return otherwise;
  if (config->magic != kConfigMagic)
    throw NcclFailure(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  return config->blocking == kUndefined ? otherwise : config->blocking != 0;
}

/// The handle is there at once; where it blocks, or at the end of the group, all members are.
ncclResult_t make(ncclComm_t* handle, const std::string& name, int members, int member, bool blocking) {
  if (members < 1 || member < 0 || member >= members)
    throw NcclFailure(ncclInvalidArgument, "Invalid rank requested : " + std::to_string(member) + "/" + std::to_string(members));
  const auto made = std::make_shared<Communicator>(name, members, member, blocking);
  *handle = new ncclComm{made};
  if (blocking) {
    try {
      add_to_group([made] { made->connect(); });
    } catch (const NcclFailure&) {
      delete std::exchange(*handle, nullptr);
      throw;
    }
    return ncclSuccess;
  }
  made->connect_behind();
  return ncclInProgress;
}

std::string name_of(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, sizeof id.internal)};
}

/// What all members of `parent` said: in the order of their numbers.
std::vector<Introduction> ask_all(Communicator& parent, const std::string& name, int color, int key) {
  Mesh question(name, {parent.mesh().members(), parent.mesh().member(), parent.gpu(), {color, key}});
  question.connect();
  return question.introductions();
}

/// The new communicator of the members that are `chosen`, in the order of `key`.
ncclResult_t make_of(const std::vector<Introduction>& all, const Communicator& parent, const std::string& name, int own, ncclComm_t* handle,
                     bool blocking) {
  std::vector<Introduction> chosen;
  const int color = all[static_cast<std::size_t>(own)].words[0];
  for (const Introduction& member : all)
    if (member.words[0] == color) chosen.push_back(member);
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) { return a.words[1] < b.words[1]; });
  const auto place = std::find_if(chosen.begin(), chosen.end(), [own](const Introduction& member) { return member.member == own; });
  const int gpu = current_gpu();
  (void)set_current_gpu(parent.gpu());
  const ncclResult_t result =
      make(handle, name + "." + std::to_string(color), static_cast<int>(chosen.size()), static_cast<int>(place - chosen.begin()), blocking);
  (void)set_current_gpu(gpu);
  return result;
}

}  // namespace
}  // namespace emulation

using namespace emulation;

NCCL_FUNCTION ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  static const char* const kDigits = "0123456789abcdef";
  std::random_device random;
  std::string name = "emulated-nccl-";
  for (int i = 0; i < 32; ++i) name += kDigits[random() % 16];
  *id = {};
  std::copy(name.begin(), name.end(), id->internal);
  return ncclSuccess;
}

NCCL_FUNCTION ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int members, ncclUniqueId id, int member, ncclConfig_t* config) {
  return guarded([&] {
    if (comm == nullptr) throw NcclFailure(ncclInvalidArgument, "ncclCommInitRankConfig : comm argument is NULL");
    return make(comm, name_of(id), members, member, is_blocking(config, true));
  });
}

NCCL_FUNCTION ncclResult_t ncclCommInitRank(ncclComm_t* comm, int members, ncclUniqueId id, int member) {
  return ncclCommInitRankConfig(comm, members, id, member, nullptr);
}

NCCL_FUNCTION ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int members, int member, int ids, ncclUniqueId* all,
                                                    ncclConfig_t* config) {
  if (ids < 1 || all == nullptr) return ncclInvalidArgument;
  return ncclCommInitRankConfig(comm, members, all[0], member, config);
}

NCCL_FUNCTION ncclResult_t ncclCommInitAll(ncclComm_t* comms, int members, const int* gpus) {
  ncclUniqueId id;
  if (comms == nullptr || members < 1 || ncclGetUniqueId(&id) != ncclSuccess) return ncclInvalidArgument;
  const int gpu = current_gpu();
  ncclResult_t result = ncclSuccess;
  start_group();
  for (int member = 0; member < members && result == ncclSuccess; ++member) {
    if (set_current_gpu(gpus == nullptr ? member : gpus[member]) != 0) result = ncclUnhandledCudaError;
    if (result == ncclSuccess) result = ncclCommInitRank(comms + member, members, id, member);
  }
  if (result != ncclSuccess) drop_group();
  (void)set_current_gpu(gpu);
  if (result != ncclSuccess) return result;
  return guarded([] {
    end_group();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  return guarded([&] {
    Communicator& parent = open(comm, "ncclCommSplit");
    parent.check_ready();
    if (made == nullptr || (color < 0 && color != kNoColor))
      throw NcclFailure(ncclInvalidArgument, "ncclCommSplit : invalid color or comm");
    *made = nullptr;
    const bool blocking = is_blocking(config, parent.is_blocking());
    const std::string name = parent.next_name();
    const std::vector<Introduction> all = ask_all(parent, name, color, key);
    if (color == kNoColor) return ncclSuccess;
    return make_of(all, parent, name, parent.mesh().member(), made, blocking);
  });
}

NCCL_FUNCTION ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made, ncclConfig_t* config, int flags) {
  return guarded([&] {
    Communicator& parent = open(comm, "ncclCommShrink");
    if (made == nullptr || (count > 0 && excluded == nullptr) || count < 0)
      throw NcclFailure(ncclInvalidArgument, "ncclCommShrink : invalid argument");
    *made = nullptr;
    if ((flags & kShrinkAborts) != 0) parent.abort();
    std::vector<Introduction> all(static_cast<std::size_t>(parent.mesh().members()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].member = all[i].words[1] = static_cast<int>(i);
    for (int i = 0; i < count; ++i) all.at(static_cast<std::size_t>(excluded[i])).words[0] = 1;
    if (all[static_cast<std::size_t>(parent.mesh().member())].words[0] != 0)
      throw NcclFailure(ncclInvalidArgument, "ncclCommShrink : an excluded rank calls it");
    return make_of(all, parent, parent.next_name(), parent.mesh().member(), made, is_blocking(config, parent.is_blocking()));
  });
}

NCCL_FUNCTION ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded([&] {
    open(comm, "ncclCommFinalize").wait_for_all();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guarded([&] {
    const std::unique_ptr<ncclComm> owner(comm);
    comm->communicator->wait_for_all();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guarded([&] {
    const std::unique_ptr<ncclComm> owner(comm);
    comm->communicator->abort();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] {
    *error = open(comm, "ncclCommGetAsyncError").async_error();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return guarded([&] {
    *count = open(comm, "ncclCommCount").mesh().members();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guarded([&] {
    *rank = open(comm, "ncclCommUserRank").mesh().member();
    return ncclSuccess;
  });
}

NCCL_FUNCTION ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* gpu) {
  return guarded([&] {
    *gpu = open(comm, "ncclCommCuDevice").gpu();
    return ncclSuccess;
  });
}
