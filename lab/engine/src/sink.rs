// SPDX-License-Identifier: MIT
//! Files that results go to, made sure of before the first run.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use flexguard_launch::failure::{Context, Failure, Result};

/// A file that is replaced whole, as often as there is something new.
pub struct Sink {
    target: PathBuf,
    /// A device or a pipe: there is nothing to rename onto, and it is written once, at the end.
    special: Option<File>,
}

impl Sink {
    pub fn open(path: &Path) -> Result<Self> {
        let doing = format!("cannot write to {}", path.display());
        // A symbolic link stays one: its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|m| m.is_dir()) {
            return Err(Failure::new(format_args!("{doing}: it is a directory")));
        }
        let special = fs::metadata(&target).is_ok_and(|m| !m.is_file());
        let sink = Self {
            special: special
                .then(|| File::options().write(true).open(&target))
                .transpose()
                .context(&doing)?,
            target,
        };
        if !special {
            // It vanishes again at once: only the question counts.
            named_with_usual_mode(sink.directory())
                .context(doing)
                .map_err(|failure| failure.advice("give a path that you may write to"))?;
        }
        Ok(sink)
    }

    fn directory(&self) -> &Path {
        let parent = self.target.parent();
        parent
            .filter(|d| !d.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    }

    /// Results so far, which a kill must not take away. Nothing for a device.
    pub fn keep(&self, text: &str) -> Result<()> {
        match self.special {
            Some(_) => Ok(()),
            None => self.replace(text.as_bytes(), false),
        }
    }

    pub fn write(&self, text: &str) -> Result<()> {
        self.write_bytes(text.as_bytes())
    }

    pub fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        match &self.special {
            Some(file) => (&mut &*file)
                .write_all(bytes)
                .context(format_args!("cannot write to {}", self.target.display())),
            None => self.replace(bytes, true),
        }
    }

    fn replace(&self, bytes: &[u8], to_disk: bool) -> Result<()> {
        let doing = format!("cannot write to {}", self.target.display());
        let mut file = named_with_usual_mode(self.directory()).context(&doing)?;
        file.write_all(bytes)
            .and_then(|()| {
                if to_disk {
                    file.as_file().sync_all()
                } else {
                    Ok(())
                }
            })
            .context(&doing)?;
        file.persist(&self.target).map(|_| ()).context(doing)
    }
}

/// A directory that is made if need be, and can be written to.
pub fn directory(path: &Path) -> Result<()> {
    let doing = format!("cannot write into {}", path.display());
    fs::create_dir_all(path)
        .and_then(|()| named_with_usual_mode(path))
        .map(|_| ())
        .context(doing)
        .map_err(|failure| failure.advice("give a directory that you may write to"))
}

/// A temporary file is private by default; a result is not.
fn named_with_usual_mode(dir: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix(".flexguard-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_replaces_the_old_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "old").unwrap();
        let sink = Sink::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        sink.keep("half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half");
        sink.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_not_replaced() {
        let sink = Sink::open(Path::new("/dev/null")).unwrap();
        sink.keep("x").unwrap();
        sink.write("x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn what_cannot_be_written_is_found_out_at_once() {
        assert!(Sink::open(Path::new("/no/such/dir/r.json")).is_err());
        assert!(Sink::open(Path::new("/tmp")).is_err());
        assert!(directory(Path::new("/proc/no/such")).is_err());
    }
}
