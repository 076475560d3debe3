#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/profiler/trace/collect/cupti/hand_buffer.h"

namespace mptune::testing {
using namespace profiler;
namespace {

TEST(CuptiDecode, KernelKeepsHowItWasLaunched) {
  CUpti_ActivityKernel10 record = kernel({100, 250, 5, 1, 2, 15}, "_Z4gemmPf");
  record.gridX = 4;
  record.gridY = 5;
  record.gridZ = 6;
  record.blockX = 128;
  record.blockY = 2;
  record.blockZ = 1;
  record.registersPerThread = 40;
  record.staticSharedMemory = 1024;
  record.dynamicSharedMemory = 2048;
  const profiler::CuptiRecords records = HandBuffer().add(record).decode();
  ASSERT_EQ(records.kernels.size(), 1U);
  const profiler::CuptiKernel& found = records.kernels[0];
  EXPECT_EQ(found.work.start, 100);
  EXPECT_EQ(found.work.end, 250);
  EXPECT_EQ(found.work.device, 1U);
  EXPECT_EQ(found.work.correlation, 5U);
  EXPECT_STREQ(found.name, "_Z4gemmPf");
  EXPECT_EQ(found.kernel, (Kernel{.context = 2,
                                  .stream = 15,
                                  .grid = {4, 5, 6},
                                  .block = {128, 2, 1},
                                  .registers_per_thread = 40,
                                  .static_shared_bytes = 1024,
                                  .dynamic_shared_bytes = 2048}));
}

TEST(CuptiDecode, CopiesOfBothKindsKnowTheirEnds) {
  using Ends = profiler::CuptiCopy::Ends;
  const profiler::CuptiRecords records = HandBuffer()
                                             .add(copy({1, 2, 1}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 10))
                                             .add(copy({2, 3, 2}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 20))
                                             .add(copy({3, 4, 3}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 30))
                                             .add(copy({4, 5, 4}, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 40))
                                             .add(copy({4, 5, 4}, CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, 50))
                                             .add(peer_copy({5, 6, 5}, 3, 2, 60))
                                             .decode();
  std::vector<Ends> ends;
  for (const profiler::CuptiCopy& found : records.copies) ends.push_back(found.ends);
  EXPECT_THAT(ends, ::testing::ElementsAre(Ends::host_to_device, Ends::device_to_host, Ends::within_device, Ends::peer, Ends::host_to_host,
                                           Ends::peer));
  EXPECT_FALSE(records.copies[3].both_ends);
  EXPECT_TRUE(records.copies[5].both_ends);
  EXPECT_EQ(records.copies[5].source, 3U);
  EXPECT_EQ(records.copies[5].destination, 2U);
  EXPECT_EQ(records.copies[5].bytes, 60);
}

TEST(CuptiDecode, ReadsEveryOtherKind) {
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device.id = 3;
  device.name = "NVIDIA H200";
  device.numMultiprocessors = 132;
  device.globalMemorySize = 150'000'000'000;
  const profiler::CuptiRecords records = HandBuffer()
                                             .add(memset_record({1, 2, 1}))
                                             .add(call(3, 4, 2, 9, 21))
                                             .add(call(5, 6, 3, 8, 22, CUPTI_ACTIVITY_KIND_DRIVER))
                                             .add(external(3, 99))
                                             .add(event_record(4, 1000, 1, 7))
                                             .add(stream_wait(5, 1000, 1, 8))
                                             .add(overhead(7, 9, CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION))
                                             .add(overhead(8, 9, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING))
                                             .add(marker(10, 1, "train", CUPTI_ACTIVITY_FLAG_MARKER_START))
                                             .add(marker(11, 1, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END))
                                             .add(device)
                                             .decode();
  EXPECT_EQ(records.memsets.size(), 1U);
  ASSERT_EQ(records.calls.size(), 2U);
  EXPECT_FALSE(records.calls[0].driver);
  EXPECT_TRUE(records.calls[1].driver);
  EXPECT_EQ(records.calls[1].thread, 22U);
  ASSERT_EQ(records.tags.size(), 1U);
  EXPECT_EQ(records.tags[0].id, 99U);
  ASSERT_EQ(records.event_records.size(), 1U);
  ASSERT_EQ(records.stream_waits.size(), 1U);
  EXPECT_EQ(records.event_records[0].sync_id, records.stream_waits[0].sync_id);
  ASSERT_EQ(records.overheads.size(), 2U);
  EXPECT_TRUE(records.overheads[0].recorder);
  EXPECT_FALSE(records.overheads[1].recorder);
  ASSERT_EQ(records.markers.size(), 2U);
  EXPECT_EQ(records.markers[1].place, profiler::CuptiMarker::Place::end);
  ASSERT_EQ(records.devices.size(), 1U);
  EXPECT_EQ(records.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(records.skipped, 0);
  EXPECT_EQ(records.lost, 0);
}

TEST(CuptiDecode, SkipsUnusedKinds) {
  CUpti_ActivityPcie pcie{};
  pcie.kind = CUPTI_ACTIVITY_KIND_PCIE;
  const profiler::CuptiRecords records = HandBuffer()
                                             .add(pcie)
                                             .add(external(1, 5, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1))
                                             .add(stream_wait(2, 3, 1, 7, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE))
                                             .add(launch(1, 1))
                                             .decode();
  EXPECT_EQ(records.skipped, 3);
  EXPECT_EQ(records.calls.size(), 1U);
  EXPECT_TRUE(records.tags.empty() && records.stream_waits.empty());
  EXPECT_EQ(records.lost, 0);
}

TEST(CuptiDecode, CountsABufferThatEndsWithinARecord) {
  HandBuffer buffer;
  buffer.add(launch(1, 1)).add(kernel({1, 2, 1}, "k"));
  for (const std::size_t missing : {1U, 100U, 215U}) {
    profiler::CuptiRecords records;
    profiler::decode_buffer(buffer.bytes().first(buffer.bytes().size() - missing), records);
    EXPECT_EQ(records.calls.size(), 1U);
    EXPECT_TRUE(records.kernels.empty());
    EXPECT_EQ(records.lost, 1);
  }
  profiler::CuptiRecords first_cut;
  profiler::decode_buffer(buffer.bytes().first(20), first_cut);
  EXPECT_EQ(first_cut.lost, 1);
  profiler::CuptiRecords empty;
  profiler::decode_buffer({}, empty);
  EXPECT_EQ(empty.lost, 0);
}

TEST(CuptiDecode, StopsAtAnUnknownKind) {
  CUpti_ActivityAPI strange = launch(2, 2);
  strange.kind = static_cast<CUpti_ActivityKind>(9999);
  const profiler::CuptiRecords records = HandBuffer().add(launch(1, 1)).add(strange).add(launch(3, 3)).decode();
  EXPECT_EQ(records.calls.size(), 1U);
  EXPECT_EQ(records.lost, 1);
}

TEST(CuptiDecode, EstimatesTheRecordsAfterOneThatItCannotRead) {
  CUpti_ActivityAPI strange = launch(2, 2);
  strange.kind = static_cast<CUpti_ActivityKind>(9999);
  HandBuffer buffer;
  buffer.add(launch(1, 1)).add(strange);
  for (std::uint32_t i = 3; i < 103; ++i) buffer.add(launch(i, i)).add(external(i, 5)).add(kernel({i, i + 1, i}, "k"));
  EXPECT_EQ(buffer.decode().lost, 101) << "100 launches, and what was strange";
  HandBuffer strange_first;
  strange_first.add(strange).add(launch(1, 1));
  EXPECT_EQ(strange_first.decode().lost, 1);
}

TEST(CuptiDecode, FreesWhatARecordOwnsOnce) {
  CUpti_ActivityOverhead3 record = overhead(1, 2, CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL);
  record.overheadData = std::malloc(16);
  HandBuffer buffer;
  buffer.add(record);
  EXPECT_EQ(buffer.decode().overheads.size(), 1U);
  EXPECT_EQ(buffer.decode().overheads.size(), 1U) << "the leak checker sees the rest";
}

}  // namespace
}  // namespace mptune::testing
