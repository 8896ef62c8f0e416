#include "crash_disk.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace waybill::test {
namespace {

constexpr std::size_t kSector = 512;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void DiskImages::opened(const std::string& path) {
  const auto [place, is_new] = files_.try_emplace(path);
  File& file = place->second;
  // Nothing of ours is on its way: what lies there may have been put there by somebody else.
  const bool idle = !is_new && !file.removed && file.changes.empty();
  if ((is_new || idle) && std::filesystem::exists(path)) {
    file.synced = content_of(path);
    // An empty one was made by the opening itself, or might as well have been.
    file.durable = !file.synced.empty();
  }
  // Made again: the old one is gone for good.
  if (file.removed) file = {};
}

void DiskImages::written(const std::string& path, std::uint64_t offset, std::string_view bytes) {
  files_[path].changes.push_back({false, offset, std::string(bytes)});
}

void DiskImages::truncated(const std::string& path, std::uint64_t size) {
  files_[path].changes.push_back({true, size, {}});
}

void DiskImages::synced(const std::string& path) {
  File& file = files_[path];
  for (const Change& change : file.changes) apply(file.synced, change);
  file.changes.clear();
  file.durable = true;
  std::erase_if(files_, [](const auto& entry) { return entry.second.removed; });
}

void DiskImages::removed(const std::string& path) { files_[path].removed = true; }

void DiskImages::apply(std::string& content, const Change& change) {
  if (change.truncate) {
    content.resize(change.offset, '\0');
    return;
  }
  const std::size_t end = change.offset + change.bytes.size();
  if (content.size() < end) content.resize(end, '\0');
  std::ranges::copy(change.bytes, content.begin() + static_cast<std::ptrdiff_t>(change.offset));
}

void DiskImages::fail(Unsynced unsynced, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto coin = [&] { return (random() & 1U) != 0; };
  const auto stays = [&] {
    return unsynced == Unsynced::kept || (unsynced == Unsynced::mixed && coin());
  };
  for (auto& [path, file] : files_) {
    // Of a removal that was not synced: it may not have happened.
    const bool there = file.removed ? file.durable && !stays() : file.durable || stays();
    for (const Change& change : file.changes) {
      if (unsynced == Unsynced::mixed && !change.truncate && random() % 3 == 0) {
        for (std::size_t at = 0; at < change.bytes.size(); at += kSector) {
          if (coin())
            apply(file.synced, {false, change.offset + at, change.bytes.substr(at, kSector)});
        }
        continue;
      }
      if (stays()) apply(file.synced, change);
    }
    std::filesystem::remove(path);
    if (there) std::ofstream(path, std::ios::binary) << file.synced;
  }
  files_.clear();
}

}  // namespace waybill::test
