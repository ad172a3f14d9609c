//! The file that a model is kept in: safetensors, with its description as one text in the header.

use std::cell::RefCell;
use std::collections::BTreeSet;

use safetensors::tensor::{Dtype, Metadata as Header, SafeTensors, TensorView};

use crate::dense::Dense;
use crate::error::ModelError;
use crate::metadata::Metadata;

/// A file of ours is never larger.
pub const MOST_BYTES: usize = 4 << 20;

/// A weight is never further from zero. With inputs clipped and networks this small, no sum can then overflow, so every
/// forecast is made of numbers.
pub const MOST_WEIGHT: f32 = 1e4;

/// How many outputs a layer has at most.
const MOST_WIDTH: usize = 512;

/// What stands before the header: its length.
const LENGTH_BYTES: usize = 8;

/// The key of the header under which the description stands.
const KEY: &str = "neurogc";

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Weights.
    Floats(Vec<f32>),
    /// Places in a list.
    Places(Vec<u16>),
}

/// One part of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// How it is called.
    pub name: String,
    /// The lengths of its dimensions.
    pub shape: Vec<usize>,
    /// Its numbers, the last dimension running fastest.
    pub values: Values,
}

/// Writes a model file. The same model gives the same bytes.
///
/// # Errors
///
/// A tensor whose shape does not fit its numbers.
pub fn write(metadata: &Metadata, tensors: &[Tensor]) -> Result<Vec<u8>, ModelError> {
    let unwritable = |error: safetensors::SafeTensorError| ModelError::Unreadable { reason: error.to_string() };
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| match &tensor.values {
            Values::Floats(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Values::Places(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        })
        .collect();
    let mut views = Vec::with_capacity(tensors.len());
    for (tensor, bytes) in tensors.iter().zip(&bytes) {
        let kind = match tensor.values {
            Values::Floats(_) => Dtype::F32,
            Values::Places(_) => Dtype::U16,
        };
        views.push((&tensor.name, TensorView::new(kind, tensor.shape.clone(), bytes).map_err(unwritable)?));
    }
    // One key only: the header is written from a hash map, and the order of several would differ from run to run.
    let header = [(KEY.to_owned(), metadata.text()?)].into_iter().collect();
    safetensors::serialize(views, Some(header)).map_err(unwritable)
}

/// A model file that is being read. It remembers what was used, so that nothing is left over unseen.
#[derive(Debug)]
pub struct Contents<'a> {
    metadata: Metadata,
    header: Header,
    numbers: &'a [u8],
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Contents<'a> {
    /// Opens the bytes of a file.
    ///
    /// # Errors
    ///
    /// When they are no model file.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ModelError> {
        if bytes.len() > MOST_BYTES {
            return Err(ModelError::TooLarge { bytes: bytes.len(), most: MOST_BYTES });
        }
        let unreadable = |error: safetensors::SafeTensorError| ModelError::Unreadable { reason: error.to_string() };
        let (length, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        let text = header.metadata().as_ref().and_then(|texts| texts.get(KEY)).ok_or(ModelError::NoMetadata)?;
        let metadata = Metadata::parse(text)?;
        // The reader has checked that all offsets lie in what follows the header and its length.
        let numbers = bytes.get(LENGTH_BYTES + length..).unwrap_or_default();
        Ok(Self { metadata, header, numbers, used: RefCell::default() })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether there is such a tensor.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// The weights of a tensor, which must have a shape.
    ///
    /// # Errors
    ///
    /// When it is not there, or not like that.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let bytes = self.bytes(name, Dtype::F32, shape)?;
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if values.iter().all(|value| value.abs() <= MOST_WEIGHT) {
            Ok(values)
        } else {
            Err(ModelError::OutOfRange { tensor: name.to_owned() })
        }
    }

    /// The places in a tensor, which must have a shape and lie below a limit.
    ///
    /// # Errors
    ///
    /// When it is not there, or not like that.
    pub fn places(&self, name: &str, shape: &[usize], below: usize) -> Result<Vec<u16>, ModelError> {
        let bytes = self.bytes(name, Dtype::U16, shape)?;
        let values: Vec<u16> = bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        if values.iter().all(|value| usize::from(*value) < below) {
            Ok(values)
        } else {
            Err(ModelError::OutOfRange { tensor: name.to_owned() })
        }
    }

    /// What the tensors are called, in the order of the file.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// A whole tensor.
    ///
    /// # Errors
    ///
    /// When it is not there, or of a kind that is not used here.
    pub fn tensor(&self, name: &str) -> Result<Tensor, ModelError> {
        let shape = self.shape(name)?.to_vec();
        let is_places = self.header.info(name).is_some_and(|info| info.dtype == Dtype::U16);
        let values = if is_places {
            Values::Places(self.places(name, &shape, usize::MAX)?)
        } else {
            Values::Floats(self.floats(name, &shape)?)
        };
        Ok(Tensor { name: name.to_owned(), shape, values })
    }

    /// The lengths of a tensor's dimensions.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn shape(&self, name: &str) -> Result<&[usize], ModelError> {
        match self.header.info(name) {
            Some(tensor) => Ok(&tensor.shape),
            None => Err(ModelError::Missing { tensor: name.to_owned() }),
        }
    }

    /// How many outputs a layer has, from its biases: a multiple of something, up to a limit.
    pub(crate) fn width(&self, name: &str, multiple_of: usize) -> Result<usize, ModelError> {
        let biases = format!("{name}.bias");
        match self.shape(&biases)? {
            [width] if (1..=MOST_WIDTH).contains(width) && width.is_multiple_of(multiple_of) => Ok(*width),
            _ => Err(self.wrong_shape(&biases, format!("a multiple of {multiple_of} up to {MOST_WIDTH}"))),
        }
    }

    /// A layer of any width, as `NAME.weight` and `NAME.bias`.
    pub(crate) fn dense(&self, name: &str, inputs: usize) -> Result<Dense, ModelError> {
        let outputs = self.width(name, 1)?;
        self.dense_to(name, inputs, outputs)
    }

    /// A layer of a given width.
    pub(crate) fn dense_to(&self, name: &str, inputs: usize, outputs: usize) -> Result<Dense, ModelError> {
        let weights = self.floats(&format!("{name}.weight"), &[outputs, inputs])?;
        let biases = self.floats(&format!("{name}.bias"), &[outputs])?;
        Ok(Dense::new(inputs, &weights, &biases))
    }

    /// The file is read: whatever was not asked for should not be there.
    pub(crate) fn nothing_left(&self) -> Result<(), ModelError> {
        let used = self.used.borrow();
        match self.header.offset_keys().into_iter().find(|name| !used.contains(name)) {
            None => Ok(()),
            Some(name) => Err(ModelError::Unexpected { tensor: name, family: self.metadata.model.clone() }),
        }
    }

    pub(crate) fn wrong_shape(&self, name: &str, wanted: String) -> ModelError {
        let found = self.header.info(name).map(|it| format!("{:?} of {:?}", it.shape, it.dtype));
        ModelError::WrongShape { tensor: name.to_owned(), found: found.unwrap_or_default(), wanted }
    }

    fn bytes(&self, name: &str, kind: Dtype, shape: &[usize]) -> Result<&'a [u8], ModelError> {
        let missing = || ModelError::Missing { tensor: name.to_owned() };
        let tensor = self.header.info(name).ok_or_else(missing)?;
        if tensor.dtype != kind || tensor.shape != shape {
            return Err(self.wrong_shape(name, format!("{shape:?} of {kind:?}")));
        }
        self.used.borrow_mut().insert(name.to_owned());
        let (from, to) = tensor.data_offsets;
        self.numbers.get(from..to).ok_or_else(missing)
    }
}
