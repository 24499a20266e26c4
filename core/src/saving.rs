//! A file that is replaced as a whole: a reader finds what was there before or what is new, never a part of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::bits::array::all_zero;

/// Bytes from which on zeros are a hole.
const PAGE: usize = 4096;
/// The most links that lead from a path to a file, as on Linux.
const MOST_LINKS: usize = 40;

/// Makes a file of what `write` writes; [`Filter::save`](crate::Filter::save) says how.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    // The system refuses what may not be written to, such as a folder.
    let mut earlier = match OpenOptions::new().append(true).open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let place = place_of(path);
    if let Some(file) = &mut earlier
        && (!file.metadata()?.is_file() || !place.exists())
    {
        // A device, a pipe, or a file that is open and has no place, such as `/dev/fd/3` may be.
        write(file)?;
        return unless_unsupported(file.sync_all());
    }
    let folder = match place.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut new = tempfile::Builder::new()
        .prefix(".libbloom-")
        .make_in(folder, create)?;
    write(new.as_file_mut())?;
    if let Some(earlier) = earlier {
        keep_permissions(&earlier, new.as_file())?;
    }
    new.as_file().sync_all()?;
    new.persist(&place).map_err(|error| error.error)?;
    #[cfg(unix)]
    unless_unsupported(File::open(folder).and_then(|folder| folder.sync_all()))?;
    Ok(())
}

/// Makes a new file, for its owner only. The crate's own way has the random name in its error, not the system's number.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    options.read(true).write(true).create_new(true).open(path)
}

/// Where the file is to which `path` and its links lead, whether there is one or not.
fn place_of(path: &Path) -> PathBuf {
    let mut place = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(link) = fs::read_link(&place) else {
            break;
        };
        // A link that is not absolute begins in its own folder.
        place.pop();
        place.push(link);
    }
    place
}

/// Gives `new` the permissions and the owner of `earlier`, as far as the system allows.
fn keep_permissions(earlier: &File, new: &File) -> io::Result<()> {
    let metadata = earlier.metadata()?;
    let mut permissions = metadata.permissions();
    #[cfg(unix)]
    if fchown(new, Some(metadata.uid()), Some(metadata.gid())).is_err()
        && fchown(new, None, Some(metadata.gid())).is_err()
    {
        permissions.set_mode(for_another_group(permissions.mode()));
    }
    new.set_permissions(permissions)
}

/// The mode of a file whose group is another one now, which may do what all others may and no more.
#[cfg(unix)]
fn for_another_group(mode: u32) -> u32 {
    mode & !0o070 | (mode & 0o007) << 3
}

/// The result of a sync, without errors for what cannot be synced: a pipe, and folders that may not be opened.
pub fn unless_unsupported(synced: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match synced {
        Err(error) if matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Writes to a file by way of `inner`, and leaves holes in a new file where only zeros are written.
pub struct WithHoles<'a, W> {
    file: &'a File,
    inner: W,
    /// Whether the file is new: of others, holes would keep what was there.
    is_new: bool,
}

impl<'a, W: Write> WithHoles<'a, W> {
    /// Begins at the begin of `file`, to which `inner` writes.
    pub fn over(file: &'a File, inner: W) -> io::Result<Self> {
        let there = file.metadata()?;
        let is_new = there.is_file() && there.len() == 0;
        // A file without a name was opened by somebody else, perhaps to append.
        #[cfg(unix)]
        let is_new = is_new && there.nlink() == 1;
        Ok(Self { file, inner, is_new })
    }
}

impl<W: Write> Write for WithHoles<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_new && bytes.len() >= PAGE && all_zero(bytes) {
            self.inner.flush()?;
            self.file.seek_relative(bytes.len() as i64)?;
            return Ok(bytes.len());
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write as _;

    use super::*;
    use crate::{FileError, Filter};

    /// A saved filter could be read by whom it was not meant for, or not by whom it was.
    #[cfg(unix)]
    #[test]
    fn another_group_may_do_what_all_others_may() {
        let modes = [0o600, 0o640, 0o664, 0o606, 0o677, 0o100_752];
        assert_eq!(
            modes.map(for_another_group),
            [0o600, 0o600, 0o644, 0o666, 0o677, 0o100_722]
        );
    }

    /// A save that the disk did not take would be reported as done, or one into a pipe as failed.
    #[test]
    fn only_what_cannot_be_synced_is_taken_for_synced() {
        use io::ErrorKind::{InvalidInput, PermissionDenied, QuotaExceeded, StorageFull, Unsupported};
        for (kind, is_synced) in [
            (InvalidInput, true),
            (PermissionDenied, true),
            (Unsupported, true),
            (StorageFull, false),
            (QuotaExceeded, false),
        ] {
            assert_eq!(unless_unsupported(Err(kind.into())).is_ok(), is_synced, "{kind}");
        }
    }

    /// The names of what is in a folder.
    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }

    /// A filter of this item.
    fn of(item: &str) -> Filter {
        let mut filter = Filter::builder(1000, 0.01).seed(7).build().unwrap();
        filter.insert(item).unwrap();
        filter
    }

    /// Threads that save to one path at once would destroy the file, and an error in one would remove that of another.
    #[test]
    fn a_file_is_whole_whoever_saves_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.bloom");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        of(&thread.to_string()).save(path).unwrap();
                        let read = Filter::load(path).unwrap();
                        assert_eq!(read.items(), 1);
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["seen.bloom"]);
    }

    /// A save that fails would lose the filter that was there, or leave rubbish behind.
    #[test]
    fn a_save_that_fails_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.bloom");
        of("ann").save(&path).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half of a filter")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
        assert!(Filter::load(&path).unwrap().contains("ann"));
        assert_eq!(names(folder.path()), ["seen.bloom"]);
    }

    #[cfg(unix)]
    mod unix {
        use std::os::unix::fs::{FileTypeExt as _, symlink};

        use super::*;

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o7777
        }

        /// Whoever can list the folder could read the seed, and make items that collide; or the program that serves the
        /// file could read it no more.
        #[test]
        fn a_new_file_is_its_owner_s_and_a_replaced_one_keeps_its_permissions() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("seen.bloom");
            of("ann").save(&path).unwrap();
            assert_eq!(mode(&path), 0o600);
            for kept in [0o644, 0o640, 0o700] {
                fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
                of("bob").save(&path).unwrap();
                assert_eq!(mode(&path), kept);
            }
        }

        /// Who may write to the folder could make the program write through a link that has the name of its temporary
        /// file.
        #[test]
        fn no_name_that_can_be_guessed_is_written_to() {
            let folder = tempfile::tempdir().unwrap();
            let (path, victim) = (folder.path().join("seen.bloom"), folder.path().join("victim"));
            fs::write(&victim, "kept").unwrap();
            let guessed = folder
                .path()
                .join(format!("seen.bloom.{}.new", std::process::id()));
            symlink(&victim, &guessed).unwrap();
            of("ann").save(&path).unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"kept");
            assert!(fs::symlink_metadata(&guessed).unwrap().is_symlink());
        }

        /// A link would become a file, and the file that it leads to would keep the old filter.
        #[test]
        fn links_are_followed() {
            let folder = tempfile::tempdir().unwrap();
            let place = |name: &str| folder.path().join(name);
            fs::create_dir(place("data")).unwrap();
            symlink("data/seen.bloom", place("link")).unwrap();
            symlink(place("link"), place("link to link")).unwrap();
            for item in ["dangling", "there"] {
                of(item).save(place("link to link")).unwrap();
                assert!(Filter::load(place("data/seen.bloom")).unwrap().contains(item));
            }
            let is_link = |name| fs::symlink_metadata(place(name)).unwrap().is_symlink();
            assert!(is_link("link") && is_link("link to link"));
            assert_eq!(names(&place("data")), ["seen.bloom"]);
            symlink("round", place("round")).unwrap();
            assert!(of("ann").save(place("round")).is_err());
            assert!(is_link("round"));
        }

        /// A device would become a regular file, and nothing of the machine would work any more.
        #[test]
        fn devices_and_pipes_are_written_to() {
            let folder = tempfile::tempdir().unwrap();
            let place = |name: &str| folder.path().join(name);
            let made = std::process::Command::new("mkfifo").arg(place("pipe")).status();
            assert!(made.unwrap().success());
            let read = std::thread::scope(|scope| {
                let reader = scope.spawn(|| Filter::load(place("pipe")).unwrap());
                of("ann").save(place("pipe")).unwrap();
                reader.join().unwrap()
            });
            assert!(read.contains("ann"));
            assert!(fs::symlink_metadata(place("pipe")).unwrap().file_type().is_fifo());
            // By a link, so that no machine is broken where this fails.
            for (device, says) in [
                ("/dev/null", None),
                ("/dev/full", Some(io::ErrorKind::StorageFull)),
            ] {
                let link = place(&device[1..].replace('/', "-"));
                symlink(device, &link).unwrap();
                assert_eq!(
                    of("ann").save(&link).err().map(|error| error.kind()),
                    says,
                    "{device}"
                );
                assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{device}");
                assert!(
                    fs::metadata(device).unwrap().file_type().is_char_device(),
                    "{device}"
                );
            }
            let file = File::create(place("open")).unwrap();
            let number = std::os::fd::AsRawFd::as_raw_fd(&file);
            of("bob").save(format!("/dev/fd/{number}")).unwrap();
            assert!(Filter::load(place("open")).unwrap().contains("bob"));
            assert_eq!(
                mode(&place("open")),
                file.metadata().unwrap().permissions().mode() & 0o7777
            );
        }

        /// A folder would become a file, or its name that of a new one.
        #[test]
        fn a_folder_is_no_file() {
            let folder = tempfile::tempdir().unwrap();
            let refused = |path: PathBuf| of("ann").save(path).unwrap_err().kind();
            assert_eq!(refused(folder.path().into()), io::ErrorKind::IsADirectory);
            for missing in ["missing/", "missing/.", "missing/seen.bloom"] {
                let kind = refused(folder.path().join(missing));
                let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
                assert!(kinds.contains(&kind), "{missing}: {kind}");
            }
            assert_eq!(refused(PathBuf::new()), io::ErrorKind::NotFound);
            // The error is the system's: it names no file that the caller does not know.
            let missing = of("ann")
                .save(folder.path().join("missing/seen.bloom"))
                .unwrap_err();
            let known = io::Error::from_raw_os_error(missing.raw_os_error().unwrap());
            assert_eq!(missing.to_string(), known.to_string());
            assert!(names(folder.path()).is_empty());
            let loaded = Filter::load(folder.path());
            assert!(
                matches!(&loaded, Err(FileError::Io(error)) if error.kind() == io::ErrorKind::IsADirectory),
                "{loaded:?}"
            );
            for endless in ["/dev/zero", "/dev/urandom"] {
                assert!(
                    matches!(Filter::load(endless), Err(FileError::Magic)),
                    "{endless}"
                );
            }
        }
    }
}
